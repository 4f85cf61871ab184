"""A federation across machines, on Flower: what the server and the sites do in a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = ["client_app", "server_app"]

if TYPE_CHECKING:
    from fedgrain.deployment.entry_points import client_app, server_app
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"client_app": "entry_points", "server_app": "entry_points"}
    )

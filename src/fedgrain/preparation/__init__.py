"""From a config to a federation: settings, images, clients, what they know and write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = ["read_config"]

if TYPE_CHECKING:
    from fedgrain.preparation.config_texts import read_config
else:
    __getattr__, __dir__ = lazy_names(__name__, {"read_config": "config_texts"})

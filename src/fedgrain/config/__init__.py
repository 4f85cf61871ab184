"""The settings of a run: complete, checked, read from files and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = ["read_config"]

if TYPE_CHECKING:
    from fedgrain.config.config_texts import read_config
else:
    __getattr__, __dir__ = lazy_names(__name__, {"read_config": "config_texts"})

"""Federated image classification where every site labels at its own level of detail."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedgrain import arithmetic
from fedgrain.version import __version__

if TYPE_CHECKING:
    from fedgrain.models.model_folder import load
    from fedgrain.models.trained_model import TrainedModel
    from fedgrain.preparation.config import Config
    from fedgrain.runs.result import Result
    from fedgrain.runs.run import Callback, resume, run

arithmetic.settle()  # before torch or numpy is loaded: they read their variables only once

__all__ = ["Callback", "Config", "Result", "TrainedModel", "__version__", "load", "resume", "run"]

_HOME = {
    "Callback": "fedgrain.runs.run",
    "Config": "fedgrain.preparation.config",
    "Result": "fedgrain.runs.result",
    "TrainedModel": "fedgrain.models.trained_model",
    "load": "fedgrain.models.model_folder",
    "resume": "fedgrain.runs.run",
    "run": "fedgrain.runs.run",
}


def __getattr__(name: str) -> Any:
    """Import a room only when it is used: the command line must start without torch."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'fedgrain' has no attribute {name!r}")

"""Federated image classification where every site labels at its own level of detail."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedgrain import arithmetic

if TYPE_CHECKING:
    from fedgrain.experiment.config import Config
    from fedgrain.experiment.result import Result
    from fedgrain.experiment.run import Callback, resume, run
    from fedgrain.experiment.trained import TrainedModel, load

arithmetic.settle()  # before torch or numpy is loaded: they read their variables only once

__version__ = "0.1.0"
__all__ = ["Callback", "Config", "Result", "TrainedModel", "__version__", "load", "resume", "run"]

_HOME = {
    "Callback": "fedgrain.experiment.run",
    "Config": "fedgrain.experiment.config",
    "Result": "fedgrain.experiment.result",
    "TrainedModel": "fedgrain.experiment.trained",
    "load": "fedgrain.experiment.trained",
    "resume": "fedgrain.experiment.run",
    "run": "fedgrain.experiment.run",
}


def __getattr__(name: str) -> Any:
    """Import a room only when it is used: the command line must start without torch."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'fedgrain' has no attribute {name!r}")

"""Federated image classification where every site labels at its own level of detail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain import arithmetic
from fedgrain.lazy import lazy_names
from fedgrain.version import __version__

arithmetic.settle()  # before torch or numpy is loaded: they read their variables only once

__all__ = [
    "Callback",
    "Config",
    "Result",
    "TrainedModel",
    "__version__",
    "evaluate",
    "load",
    "resume",
    "run",
]

if TYPE_CHECKING:
    from fedgrain.config.config import Config
    from fedgrain.models.model_folder import load
    from fedgrain.models.trained_model import TrainedModel
    from fedgrain.runs.evaluate import evaluate
    from fedgrain.runs.result import Result
    from fedgrain.runs.rounds import Callback
    from fedgrain.runs.run import resume, run
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Callback": "runs.rounds",
            "Config": "config.config",
            "Result": "runs.result",
            "TrainedModel": "models.trained_model",
            "evaluate": "runs.evaluate",
            "load": "models.model_folder",
            "resume": "runs.run",
            "run": "runs.run",
        },
    )

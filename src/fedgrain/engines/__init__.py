"""Where clients train: in this process, or in several."""

from fedgrain.engines.built_model import BuiltModel
from fedgrain.engines.client_trainer import ClientTrainer
from fedgrain.engines.model_spec import ModelSpec
from fedgrain.engines.sequential import SequentialEngine, train_task
from fedgrain.engines.validator import Validator

__all__ = [
    "BuiltModel",
    "ClientTrainer",
    "ModelSpec",
    "SequentialEngine",
    "Validator",
    "train_task",
]

"""Where clients train: in this process, or in several."""

from fedgrain.engines.sequential import SequentialEngine, train_task
from fedgrain.engines.workshop import Model, Workshop

__all__ = ["Model", "SequentialEngine", "Workshop", "train_task"]

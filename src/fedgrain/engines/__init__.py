"""Where clients train: in this process, or in several."""

from fedgrain.engines.sequential import SequentialEngine, outcome_of
from fedgrain.engines.workshop import Model, Workshop

__all__ = ["Model", "SequentialEngine", "Workshop", "outcome_of"]

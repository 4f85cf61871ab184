"""Pretrained trunks: weights, what is frozen and computed once, and what is trained."""

from fedgrain.trunks.features import Views, inputs_of
from fedgrain.trunks.loading import describe
from fedgrain.trunks.sources import StoredActivations, ThroughTrunk
from fedgrain.trunks.spec import TrunkSpec, trunk_from
from fedgrain.trunks.tail import build_trained
from fedgrain.trunks.weights import Weights, find_weights

__all__ = [
    "StoredActivations",
    "ThroughTrunk",
    "TrunkSpec",
    "Views",
    "Weights",
    "build_trained",
    "describe",
    "find_weights",
    "inputs_of",
    "trunk_from",
]

"""Heads: from logits to a loss and to probabilities of nodes (method, section 6)."""

from __future__ import annotations

from typing import Any

from fedgrain.catalogue import HEADS
from fedgrain.errors import HeadError
from fedgrain.heads.base import Head
from fedgrain.heads.branches import (
    TOGETHER,
    BestLeaf,
    DecoupledModel,
    branch_dataset,
    branch_losses,
    decouple,
    unknown_children,
)
from fedgrain.heads.cond_sigmoid import CondSigmoid
from fedgrain.heads.cond_softmax import CondSoftmax
from fedgrain.heads.flat_softmax import FlatSoftmax
from fedgrain.heads.loss_terms import LossTerms
from fedgrain.heads.projection_tensors import ProjectionTensors
from fedgrain.heads.ps_softmax import PSSoftmax
from fedgrain.heads.softmax_descendant import SoftmaxDescendant
from fedgrain.heads.softmax_margin import SoftmaxMargin
from fedgrain.heads.supervision import Supervised, supervise
from fedgrain.plugins import call_own, load_callable
from fedgrain.taxonomy.tree import Taxonomy

__all__ = [
    "HEADS",
    "TOGETHER",
    "BestLeaf",
    "CondSigmoid",
    "CondSoftmax",
    "DecoupledModel",
    "FlatSoftmax",
    "Head",
    "LossTerms",
    "PSSoftmax",
    "ProjectionTensors",
    "SoftmaxDescendant",
    "SoftmaxMargin",
    "Supervised",
    "branch_dataset",
    "branch_losses",
    "build_head",
    "decouple",
    "supervise",
    "unknown_children",
]


def build_head(name: str, taxonomy: Taxonomy, **settings: Any) -> Head:
    """Return a head by name, or the user's own: ``module:callable`` called with the taxonomy.

    ``settings`` are those that the catalogue lists for the head: the type and size of a margin.
    """
    allowed = HEADS[name].settings if name in HEADS else ()
    strange = [setting for setting in settings if setting not in allowed]
    if strange:
        raise HeadError(f"head {name} has no setting {', '.join(strange)}")
    if name in HEADS:
        ours: Head = load_callable(HEADS[name].home, "head", HeadError)(taxonomy, **settings)
        return ours
    if ":" not in name:
        raise HeadError(
            f"there is no head {name!r}; choose one of {', '.join(HEADS)}, or name your own "
            "as module:callable"
        )
    head = call_own(name, "head", HeadError, taxonomy, called_with="the taxonomy")
    if not isinstance(head, Head):
        raise HeadError(f"head {name!r} made a {type(head).__name__}, not a fedgrain.heads.Head")
    return head

"""Heads: from logits to a loss and to probabilities of nodes (method, section 6)."""

from __future__ import annotations

from typing import Any

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
from fedgrain.heads.projection import Projection
from fedgrain.heads.ps_softmax import PSSoftmax
from fedgrain.heads.softmax_descendant import SoftmaxDescendant
from fedgrain.heads.softmax_margin import MARGINS, SoftmaxMargin
from fedgrain.heads.supervision import SUPERVISIONS, Supervised, supervise
from fedgrain.plugins import call_own
from fedgrain.taxonomy.tree import Taxonomy

HEADS: dict[str, type[Head]] = {
    head.name: head
    for head in (
        FlatSoftmax,
        PSSoftmax,
        CondSigmoid,
        CondSoftmax,
        SoftmaxDescendant,
        SoftmaxMargin,
    )
}

__all__ = [
    "HEADS",
    "MARGINS",
    "SUPERVISIONS",
    "TOGETHER",
    "BestLeaf",
    "CondSigmoid",
    "CondSoftmax",
    "DecoupledModel",
    "FlatSoftmax",
    "Head",
    "PSSoftmax",
    "Projection",
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

    softmax-margin takes the settings ``margin_type`` and ``margin_size``; the others take none.
    """
    if settings and (name != SoftmaxMargin.name or set(settings) - {"margin_type", "margin_size"}):
        raise HeadError(f"head {name} has no setting {', '.join(settings)}")
    if name in HEADS:
        return HEADS[name](taxonomy, **settings)
    if ":" not in name:
        raise HeadError(
            f"there is no head {name!r}; choose one of {', '.join(HEADS)}, or name your own "
            "as module:callable"
        )
    head = call_own(name, "head", HeadError, taxonomy, called_with="the taxonomy")
    if not isinstance(head, Head):
        raise HeadError(f"head {name!r} made a {type(head).__name__}, not a fedgrain.heads.Head")
    return head

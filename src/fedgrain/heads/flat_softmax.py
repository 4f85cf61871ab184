"""flat-softmax: one logit per leaf (method, section 6)."""

from __future__ import annotations

from torch import Tensor

from fedgrain.heads.base import at_least_float32
from fedgrain.heads.leaf_softmax import LeafSoftmax
from fedgrain.taxonomy.tree import Taxonomy


class FlatSoftmax(LeafSoftmax):
    """Cross-entropy over the leaves; logit j belongs to ``taxonomy.leaves[j]``."""

    name = "flat-softmax"

    def __init__(self, taxonomy: Taxonomy) -> None:
        super().__init__(taxonomy, len(taxonomy.leaves))

    def leaf_scores(self, logits: Tensor) -> Tensor:
        """Return the logits: there is one per leaf."""
        return at_least_float32(logits)

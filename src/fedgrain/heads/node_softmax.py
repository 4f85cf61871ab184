"""What softmax-descendant and softmax-margin share: one softmax over all nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from fedgrain.heads.base import Head, at_least_float32, minus_log_share
from fedgrain.taxonomy.tree import Taxonomy


class NodeSoftmax(Head):
    """Every node, the root too, holds probability of its own; logit j belongs to node j.

    A node's probability is that of its subtree, so children may sum to less than their parent, and
    no set of leaves has a likelihood: `projection` is refused.
    """

    def __init__(self, taxonomy: Taxonomy) -> None:
        super().__init__(taxonomy, len(taxonomy))

    def node_log_probs(self, logits: Tensor) -> Tensor:
        """Sum the softmax of all nodes at and below each node."""
        return self.sums.probabilities_under(at_least_float32(logits).log_softmax(1))

    def marginal_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return -log of the softmax of all nodes at and below the label."""
        weight = torch.where(self.sums.below(labels.long()), 0.0, -torch.inf)
        return minus_log_share(at_least_float32(logits), weight)

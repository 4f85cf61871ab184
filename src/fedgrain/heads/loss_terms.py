"""Terms beside the likelihood of a label: label smoothing, ancestors (method, section 6)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedgrain.heads.base import Head, at_least_float32


@dataclass(frozen=True)
class LossTerms:
    """What is added to the loss of a sample; nothing by default.

    ``label_smoothing`` eps (Szegedy et al. 2016) gives every leaf the share eps / leaves of a
    label: (1 - eps) L + eps * mean over leaves of -log P(leaf).

    ``ancestors`` adds -sum over the nodes a above the label's set of leaves of lambda(a) log P(a),
    a cross-entropy that knows the tree. lambda is ``ancestors`` at depth 1 and is multiplied by
    ``ancestor_decay`` with each further level; the root, of which P is 1, adds nothing.

    ``gce`` q, the generalised cross-entropy (Zhang and Sabuncu, NeurIPS 2018), replaces -log p by
    (1 - p^q) / q, so that labels the model finds improbable, perhaps wrong ones, pull less.
    """

    label_smoothing: float = 0.0
    ancestors: float = 0.0
    ancestor_decay: float = 1.0
    gce: float = 0.0

    def __bool__(self) -> bool:
        return self.label_smoothing > 0 or self.ancestors > 0 or self.gce > 0

    def robust(self, losses: Tensor) -> Tensor:
        """Return (1 - p^q) / q of losses -log p; as they are if q is 0."""
        return -torch.expm1(-self.gce * losses) / self.gce if self.gce else losses

    def robust_shares(self, head: Head, logits: Tensor, shares: Tensor) -> Tensor:
        """Return the same for labels shared out over leaves [batch, leaves]."""
        return (shares * self.robust(-head.leaf_log_probs(logits))).sum(1)

    def smoothed(self, head: Head, logits: Tensor, losses: Tensor, weights: Tensor) -> Tensor:
        """Return the losses [batch], smoothed; ``weights`` [batch] is what a label counts."""
        if not self.label_smoothing:
            return losses
        everywhere = -head.leaf_log_probs(logits).mean(1)
        return torch.lerp(losses, weights.to(losses.dtype) * everywhere, self.label_smoothing)

    def of_branch(self, logits: Tensor, losses: Tensor) -> Tensor:
        """Return the losses of a branch, smoothed: every child has a share of a label."""
        losses = self.robust(losses)
        if not self.label_smoothing:
            return losses
        everywhere = -at_least_float32(logits).log_softmax(1).mean(1)
        return torch.lerp(losses, everywhere, self.label_smoothing)

    def above_sets(self, head: Head, logits: Tensor, sets: Tensor) -> Tensor:
        """Return the terms of the nodes above sets of leaves, a mask [batch, leaves].

        These are the nodes that hold the whole set and more; a node that is the set itself has its
        probability in the likelihood already.
        """
        nodes, count = head.node_log_probs(logits), sets.sum(1, keepdim=True)
        position = torch.arange(sets.shape[1], device=sets.device)
        first = torch.where(sets, position, sets.shape[1]).amin(1, keepdim=True)
        last = torch.where(sets, position, -1).amax(1, keepdim=True)
        start, end = head.sums.first_leaf, head.sums.end_leaf
        holds = (start <= first) & (last < end) & (end - start > count)  # [batch, nodes]
        weights = self._weights(head, nodes)
        return -(torch.where(holds, nodes, 0.0) * weights).sum(1)

    def above_shares(self, head: Head, logits: Tensor, shares: Tensor) -> Tensor:
        """Return the terms of labels shared out over leaves [batch, leaves].

        Each leaf has the terms of the nodes above it, weighted by its share.
        """
        nodes = head.node_log_probs(logits)
        start, end = head.sums.first_leaf, head.sums.end_leaf
        sums = torch.nn.functional.pad(shares.to(nodes.dtype).cumsum(1), (1, 0))
        below = (sums[:, end] - sums[:, start]) * (end - start > 1)  # [batch, nodes]
        return -(below * nodes * self._weights(head, nodes)).sum(1)

    def _weights(self, head: Head, like: Tensor) -> Tensor:
        """Return lambda of each node [nodes]; the root has none."""
        depth = torch.tensor(head.taxonomy.depth, dtype=like.dtype, device=like.device)
        weights = self.ancestors * self.ancestor_decay ** (depth - 1).clamp_min(0)
        return torch.where(depth > 0, weights, 0.0)

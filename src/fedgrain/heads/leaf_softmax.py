"""What flat-softmax and ps-softmax share: one softmax over the leaves."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedgrain.heads.base import Head, minus_log_share
from fedgrain.heads.projection_tensors import ProjectionTensors
from fedgrain.heads.writing_tensors import LabelWeights
from fedgrain.taxonomy.tree import Taxonomy


class LeafSoftmax(Head):
    """All probability lies on the leaves; a node has that of the leaves under it.

    The paper's rule cannot use a label at an internal node: such samples do not enter the loss.
    `marginal`, `projection` and `learned` use them all.
    """

    leaf_position: Tensor  # [nodes], position in leaves, -1 for an internal node

    def __init__(self, taxonomy: Taxonomy, num_outputs: int) -> None:
        super().__init__(taxonomy, num_outputs)
        position = np.full(len(taxonomy), -1, dtype=np.int64)
        position[taxonomy.leaves] = np.arange(len(taxonomy.leaves))
        self.register_buffer("leaf_position", torch.tensor(position), persistent=False)

    @abstractmethod
    def leaf_scores(self, logits: Tensor) -> Tensor:
        """Return one score per leaf [batch, leaves], at least float32; their softmax is P."""

    def enters(self, labels: Tensor) -> Tensor:
        """Mask [batch]: only leaves enter."""
        return self.leaf_position[labels.long()] >= 0

    def sample_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy over the leaves; 0 for a label at an internal node."""
        return functional.cross_entropy(
            self.leaf_scores(logits),
            self.leaf_position[labels.long()],
            ignore_index=-1,
            reduction="none",
        )

    def leaf_log_probs(self, logits: Tensor) -> Tensor:
        """Return the logarithm of the softmax over the leaves."""
        return self.leaf_scores(logits).log_softmax(1)

    def node_log_probs(self, logits: Tensor) -> Tensor:
        """Sum the softmax of the leaves under each node."""
        leaves = self.leaf_log_probs(logits)
        own = leaves.new_full((leaves.shape[0], len(self.taxonomy)), -torch.inf)
        return self.sums.probabilities_under(own.index_copy(1, self.sums.leaves, leaves))

    def marginal_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return -log of the softmax of all leaves under the label."""
        return minus_log_share(self.leaf_scores(logits), self.leaf_weights(labels, None))

    def projection_losses(
        self, logits: Tensor, labels: Tensor, projection: ProjectionTensors
    ) -> Tensor:
        """Return -log of the softmax of the leaves the label stands for."""
        return minus_log_share(self.leaf_scores(logits), self.leaf_weights(labels, projection))

    def written_losses(self, logits: Tensor, labels: Tensor, writing: LabelWeights) -> Tensor:
        """Return -log of the sum over leaves of P(leaf) T(label | leaf)."""
        scores = self.leaf_scores(logits)
        return minus_log_share(scores, self.leaf_weights(labels, writing).to(scores.dtype))

    def leaf_weights(
        self, labels: Tensor, reading: ProjectionTensors | LabelWeights | None
    ) -> Tensor:
        """Return the log weight of each leaf [batch, leaves] in the likelihood of a label."""
        labels = labels.long()
        if reading is None:
            return torch.where(self.sums.leaves_below(labels), 0.0, -torch.inf)
        if isinstance(reading, LabelWeights):
            return reading.leaf_weights(self.sums, labels)
        below = self.sums.leaves_below(labels)  # [batch, leaves]
        stands_for = reading.projected == labels[:, None]
        stands_for = torch.where(reading.empty[labels, None], below, stands_for)
        weight = torch.where(stands_for, 0.0, -torch.inf)
        if reading.laziness > 0.0:
            weight = torch.where(below & ~stands_for, reading.log_laziness, weight)
        return weight

    def responsibilities(
        self,
        logits: Tensor,
        labels: Tensor,
        reading: ProjectionTensors | LabelWeights | None,
    ) -> Tensor:
        """Return P(leaf | label) [batch, leaves]: how the model shares a label out over leaves."""
        return (self.leaf_scores(logits) + self.leaf_weights(labels, reading)).softmax(1)

    def shared_losses(self, logits: Tensor, shares: Tensor) -> Tensor:
        """Return the cross-entropy with given shares of the leaves [batch, leaves].

        At the weights that made the shares its gradient is that of the likelihood of the label.
        """
        return functional.cross_entropy(self.leaf_scores(logits), shares, reduction="none")

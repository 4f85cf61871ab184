"""cond-softmax: a softmax among the children of every node (method, section 6; YOLO9000)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedgrain.heads.base import Head, at_least_float32, minus_log_share
from fedgrain.heads.projection_tensors import ProjectionTensors
from fedgrain.taxonomy.tree import Taxonomy


class CondSoftmax(Head):
    """Sum of sibling cross-entropies along the label's path; logit j belongs to node j + 1.

    The sum stops at the label, so a root label costs 0: the paper's rule is -log P(label), which is
    `marginal`. A loss looks only at the children along the path: [batch, depth, children].
    """

    name = "cond-softmax"
    by_parent: Tensor  # [nodes without root + padding], nodes grouped by parent
    first_child: Tensor  # [nodes], where in by_parent the children of a node start
    child_count: Tensor  # [nodes]
    child_position: Tensor  # [nodes], which child of its parent a node is

    def __init__(self, taxonomy: Taxonomy) -> None:
        super().__init__(taxonomy, len(taxonomy) - 1)
        order, starts = (part.astype(np.int64) for part in taxonomy.by_parent)
        first, counts = starts[:-1], np.diff(starts)
        position = np.zeros(len(taxonomy), dtype=np.int64)
        position[order] = np.arange(len(order)) - first[taxonomy.parents[order]]
        self.most_children = int(counts.max())
        padded = np.concatenate([order, np.ones(self.most_children, dtype=np.int64)])
        self.register_buffer("by_parent", torch.tensor(padded), persistent=False)
        self.register_buffer("first_child", torch.tensor(first), persistent=False)
        self.register_buffer("child_count", torch.tensor(counts), persistent=False)
        self.register_buffer("child_position", torch.tensor(position), persistent=False)

    def sample_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the sibling cross-entropies along the path."""
        logits, labels = at_least_float32(logits), labels.long()
        path = self.sums.path[labels]  # [batch, depth], 0 after the label
        children, missing = self._children(self.sums.parents[path])  # [batch, depth, children]
        of_siblings = logits.gather(1, children.flatten(1) - 1).view(children.shape)
        conditional = of_siblings.masked_fill(missing, -torch.inf).log_softmax(2)
        chosen = conditional.gather(2, self.child_position[path][:, :, None])[:, :, 0]
        return -chosen.masked_fill(path == 0, 0.0).sum(1)

    def node_log_probs(self, logits: Tensor) -> Tensor:
        """Multiply the conditionals along the path."""
        return self.sums.along_paths(self.sums.sibling_log_softmax(at_least_float32(logits)))

    def marginal_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return -log P(label), which is the paper's rule."""
        return self.sample_losses(logits, labels)

    def projection_losses(
        self, logits: Tensor, labels: Tensor, projection: ProjectionTensors
    ) -> Tensor:
        """Return the path's loss, plus that of "one of the unknown children" at the label itself.

        This is the branch-wise form of the projection likelihood: P(label) times the share of its
        unknown children. A leaf has no children; it borrows the root's, at no cost.
        """
        logits, labels = at_least_float32(logits), labels.long()
        is_leaf = self.child_count[labels] == 0
        children, missing = self._children(labels.masked_fill(is_leaf, 0))  # [batch, children]
        of_children = logits.gather(1, children - 1).masked_fill(missing, -torch.inf)
        weight = projection.child_weight[children].masked_fill(is_leaf[:, None], 0.0)
        stop = minus_log_share(of_children, weight.to(logits.dtype))
        return self.sample_losses(logits, labels) + stop

    def _children(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Children of internal nodes, in a new last dimension, and which entries are padding."""
        place = torch.arange(self.most_children, device=nodes.device)
        children = self.by_parent[self.first_child[nodes][..., None] + place]
        return children, place >= self.child_count[nodes][..., None]

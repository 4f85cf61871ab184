"""softmax-margin: a softmax over all nodes with a margin (method, section 6; hiercls)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedgrain.catalogue import MARGINS
from fedgrain.errors import HeadError
from fedgrain.heads.base import at_least_float32
from fedgrain.heads.node_softmax import NodeSoftmax
from fedgrain.taxonomy.tree import Taxonomy


class SoftmaxMargin(NodeSoftmax):
    """Cross-entropy over all nodes, each of them ahead of the label by its margin.

    The margin is ``margin_size`` times what ``margin_type`` says of a node u and the label y:
    `incorrect`: 0 on the path to y, else 1, so that descendants of an internal label are negatives.
    `edge-distance`: the edges between u and y. `depth-deficit`: the edges from y up to the lowest
    common ancestor. `information-distance`: I(u) + I(y) - 2 I(lca), where I is -log of the share of
    the leaves under a node.
    """

    name = "softmax-margin"
    depth: Tensor  # [nodes]
    information: Tensor  # [nodes]

    def __init__(
        self, taxonomy: Taxonomy, margin_type: str = "incorrect", margin_size: float = 5.0
    ) -> None:
        super().__init__(taxonomy)
        if margin_type not in MARGINS:
            raise HeadError(
                f"there is no margin {margin_type!r}; choose one of {', '.join(MARGINS)}"
            )
        if not (isinstance(margin_size, int | float) and 0 <= margin_size < math.inf):
            raise HeadError(f"a margin's size is a finite number from 0, not {margin_size!r}")
        self.margin_type, self.margin_size = margin_type, float(margin_size)
        information = np.log(len(taxonomy.leaves) / taxonomy.leaf_counts)
        depth = torch.tensor(np.asarray(taxonomy.depth, np.int64))
        self.register_buffer("depth", depth, persistent=False)
        self.register_buffer("information", torch.tensor(information), persistent=False)

    def sample_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy with every node raised by its margin."""
        logits, labels = at_least_float32(logits), labels.long()
        if self.margin_type == "incorrect":
            on_path = self.sums.on_path(labels)
            raised = torch.where(on_path, logits, logits + self.margin_size)
        else:
            raised = logits + self.margin_size * self._margins(labels).to(logits.dtype)
        return functional.cross_entropy(raised, labels, reduction="none")

    def _margins(self, labels: Tensor) -> Tensor:
        """Return how far every node is from the label [batch, nodes], by the type of margin."""
        path = self.sums.path[labels]  # [batch, depth]
        common, _ = self.sums.lca_depths(path)  # [batch, nodes]
        own_depth = self.depth[labels, None]
        if self.margin_type == "depth-deficit":
            return own_depth - common
        if self.margin_type == "edge-distance":
            return own_depth + self.depth - 2 * common
        lca = functional.pad(path, (1, 0)).gather(1, common)
        return self.information[labels, None] + self.information - 2 * self.information[lca]

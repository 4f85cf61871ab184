"""softmax-margin: a softmax over all nodes with a margin (method, section 6; hiercls)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fedgrain.heads.node_softmax import NodeSoftmax

MARGIN = 5.0  # tau


class SoftmaxMargin(NodeSoftmax):
    """Cross-entropy over all nodes, where those off the label's path are ahead by tau.

    Descendants of an internal label are off its path: negatives.
    """

    name = "softmax-margin"

    def sample_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy with every node off the path raised by tau."""
        raised = torch.where(self.sums.on_path(labels), logits, logits + MARGIN)
        return functional.cross_entropy(raised, labels, reduction="none")

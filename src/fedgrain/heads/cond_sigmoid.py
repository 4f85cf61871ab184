"""cond-sigmoid: is it this child, given the parent? (method, section 6; Brust and Denzler)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from fedgrain.heads.base import Head, at_least_float32
from fedgrain.taxonomy.tree import Taxonomy


class CondSigmoid(Head):
    """Binary cross-entropy on the nodes whose parent is on the label's path; logit j: node j + 1.

    The children of an internal label are negatives. Without negatives nothing would keep the
    sigmoids from all being 1, so the label cannot be taken as a mere ancestor (`marginal`).
    """

    name = "cond-sigmoid"

    def __init__(self, taxonomy: Taxonomy) -> None:
        super().__init__(taxonomy, len(taxonomy) - 1)

    def sample_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the binary cross-entropies of the children along the path, and of the label's own."""
        logits, labels = at_least_float32(logits), labels.long()
        on_path = self.sums.on_path(labels)  # [batch, nodes]
        asked = on_path.gather(1, self.sums.parents[1:].expand(len(labels), -1))
        losses = functional.binary_cross_entropy_with_logits(
            logits, on_path[:, 1:].to(logits.dtype), asked.to(logits.dtype), reduction="none"
        )
        return losses.sum(1)

    def node_log_probs(self, logits: Tensor) -> Tensor:
        """Multiply the sigmoids along the path."""
        return self.sums.along_paths(functional.logsigmoid(at_least_float32(logits)))

"""Terms beside the likelihood of a label: label smoothing (method, section 6)."""

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
    """

    label_smoothing: float = 0.0

    def __bool__(self) -> bool:
        return self.label_smoothing > 0

    def with_terms(self, head: Head, logits: Tensor, losses: Tensor, weights: Tensor) -> Tensor:
        """Return the losses [batch] with the terms; ``weights`` [batch] is what a label counts."""
        if self.label_smoothing:
            everywhere = -head.leaf_log_probs(logits).mean(1)
            losses = torch.lerp(losses, weights.to(losses.dtype) * everywhere, self.label_smoothing)
        return losses

    def of_branch(self, logits: Tensor, losses: Tensor) -> Tensor:
        """Return the losses of a branch with its terms: every child has a share of a label."""
        if not self.label_smoothing:
            return losses
        everywhere = -at_least_float32(logits).log_softmax(1).mean(1)
        return torch.lerp(losses, everywhere, self.label_smoothing)

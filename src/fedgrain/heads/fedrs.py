"""FedRS (Li and Zhan, KDD 2021): a softmax restricted for the classes a client cannot name.

A client that never names a class would only push its score down. So the score of each class that
it has no label of is multiplied by alpha before the softmax: 1 is the plain softmax, smaller values
restrict more. The paper's experiments take 0.5.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RestrictedSoftmax(nn.Module):
    """Scales the scores of the classes a client has no label of."""

    scale: Tensor  # [classes]

    def __init__(self, counts: Tensor, alpha: float) -> None:
        super().__init__()
        scale = torch.where(counts > 0, 1.0, alpha)
        self.register_buffer("scale", scale, persistent=False)

    def forward(self, scores: Tensor) -> Tensor:
        """Return the scores [batch, classes] as the client trains on them."""
        return scores * self.scale.to(scores.dtype)

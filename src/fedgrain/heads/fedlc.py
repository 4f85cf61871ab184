"""FedLC (Zhang et al., ICML 2022): scores calibrated by how often a client has each class.

The score of class c is lowered by tau n_c^(-1/4), where n_c is the number of the client's labels of
c, so that rare classes need a wider margin. The cross-entropy is over all classes, as in public
implementations; the paper's sum leaves out the class itself. A class without a label counts 1e-8.
"""

from __future__ import annotations

from torch import Tensor, nn

_NONE = 1e-8


class LogitCalibration(nn.Module):
    """Lowers the scores of rare classes."""

    offset: Tensor  # [classes]

    def __init__(self, counts: Tensor, tau: float) -> None:
        super().__init__()
        offset = tau * counts.double().clamp_min(_NONE) ** -0.25
        self.register_buffer("offset", offset, persistent=False)

    def forward(self, scores: Tensor) -> Tensor:
        """Return the scores [batch, classes] as the client trains on them."""
        return scores - self.offset.to(scores.dtype)

"""Sharpness-aware steps at a client (SAM: Foret et al., ICLR 2021; federated: Qu et al. 2022).

The gradient of a batch is taken where the loss is highest nearby, to first order, and applied to
the weights themselves: g(w + rho g(w) / |g(w)|). It costs a second pass through the net.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Gradients = list[Tensor | None]  # None where a weight had no part in the loss


def sharp_gradients(
    net: nn.Module,
    parameters: Sequence[nn.Parameter],
    gradients: Gradients,
    rho: float,
    loss: Callable[[], Tensor],
) -> Gradients:
    """Return the gradients at the weights moved uphill by ``rho``; the weights stay as they are.

    ``loss`` computes the loss of the same batch again. Buffers (a BatchNorm's statistics) count
    the batch once.
    """
    found = [gradient for gradient in gradients if gradient is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in found]))
    weights = [parameter.detach().clone() for parameter in parameters]
    buffers = [buffer.clone() for buffer in net.buffers()]
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                parameter.add_(gradient * (rho / (norm + 1e-12)))
    uphill: Gradients = [*torch.autograd.grad(loss(), parameters, allow_unused=True)]
    with torch.no_grad():
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.copy_(weight)
        for buffer, before in zip(net.buffers(), buffers, strict=True):
            buffer.copy_(before)
    return uphill

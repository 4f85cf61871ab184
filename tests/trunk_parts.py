"""Random weights of a trunk, a user's own net as a trunk, and whole copies of it."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn


def random_weights(net: nn.Module) -> dict[str, Tensor]:
    """Weights that keep activations in range, other than those a net is built with."""
    draw = torch.Generator().manual_seed(5)
    found = {}
    for name, value in net.state_dict().items():
        if not value.is_floating_point():
            found[name] = value
        elif value.ndim > 1:
            scale = max(1, value[0].numel()) ** -0.5
            found[name] = torch.randn(value.shape, generator=draw) * scale
        else:
            centre = 1.0 if name.endswith(("weight", "running_var")) else 0.0
            found[name] = centre + 0.2 * torch.rand(value.shape, generator=draw)
    return found


class TrunkNet(nn.Module):
    """Two convolutions with a BatchNorm, pooled to 12 features; weights by a fixed seed."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 5, stride=3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3)
        )
        self.head = nn.Linear(12, outputs)
        draw = torch.Generator().manual_seed(3)
        for value in self.features.state_dict().values():
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape, generator=draw) - (value.ndim > 1) * 0.5)

    def forward(self, images: Tensor) -> Tensor:
        """Images to logits."""
        logits: Tensor = self.head(self.features(images).relu().mean((2, 3)))
        return logits


class FullCopy(nn.Module):
    """A whole net whose trunk is there but has no gradient and stays in evaluation mode."""

    trunk: ClassVar[TrunkNet]

    def __init__(self, outputs: int) -> None:
        super().__init__()
        whole = TrunkNet(1)
        whole.load_state_dict({**whole.state_dict(), **_features(self.trunk)})
        whole.head = nn.Identity()  # type: ignore[assignment]
        self.features = nn.Sequential(
            whole.requires_grad_(False), nn.LayerNorm(12, elementwise_affine=False)
        )
        self.head = nn.Linear(12, outputs)

    def train(self, mode: bool = True) -> FullCopy:
        """Train all but the trunk."""
        super().train(mode)
        self.features.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Images to logits."""
        logits: Tensor = self.head(self.features(images))
        return logits


def _features(net: nn.Module) -> dict[str, Tensor]:
    return {n: v for n, v in net.state_dict().items() if n.startswith("features.")}

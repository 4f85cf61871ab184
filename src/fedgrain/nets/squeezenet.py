"""The paper's SqueezeNet (method, section 9)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedgrain.nets.cnn import ImageShape
from fedgrain.nets.dropout import SeededDropout


class Fire(nn.Module):
    """Squeeze to few channels, then expand by 1x1 and 3x3 side by side (SqueezeNet)."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(inputs, squeezed, 1), nn.ReLU(inplace=True))
        self.expand1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        """[batch, inputs, height, width] to [batch, 2 * expanded, height, width]."""
        squeezed = self.squeeze(images)
        return torch.cat([self.expand1(squeezed), self.expand3(squeezed)], 1).relu_()


class SqueezeNet(nn.Module):
    """The paper's SqueezeNet; its outputs pass a ReLU, so they are never negative."""

    def __init__(self, num_outputs: int, image_shape: ImageShape) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(image_shape[2], 64, 3, stride=2),
            nn.MaxPool2d(3, 2),
            nn.ReLU(inplace=True),
            Fire(64, 16, 64),
            nn.MaxPool2d(3, 2),
            Fire(128, 32, 128),
            nn.MaxPool2d(3, 2),
            Fire(256, 48, 192),
            SeededDropout(0.5),
        )
        self.head = nn.Conv2d(384, num_outputs, 5)

    def forward(self, images: Tensor) -> Tensor:
        """Images [batch, channels, height, width] to logits [batch, outputs], none below 0."""
        return self.head(self.features(images)).relu().mean((2, 3))  # type: ignore[no-any-return]

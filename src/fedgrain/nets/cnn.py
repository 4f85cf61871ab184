"""The paper's small convolutional nets (method, section 9)."""

from __future__ import annotations

from torch import Tensor, nn

ImageShape = tuple[int, int, int]  # height, width, channels


class ConvNet(nn.Module):
    """Stages of conv5x5, pool2, ReLU without padding, then a linear layer (the CNN of FedAvg).

    Pooling before the ReLU is the same function as after it, and faster.
    """

    def __init__(
        self, num_outputs: int, image_shape: ImageShape, channels: tuple[int, ...]
    ) -> None:
        super().__init__()
        height, width, inputs = image_shape
        layers: list[nn.Module] = []
        for outputs in channels:
            layers += [nn.Conv2d(inputs, outputs, 5), nn.MaxPool2d(2), nn.ReLU(inplace=True)]
            height, width, inputs = (height - 4) // 2, (width - 4) // 2, outputs
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Linear(inputs * height * width, num_outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Images [batch, channels, height, width] to logits [batch, outputs]."""
        logits: Tensor = self.head(self.features(images))
        return logits


def cnn_32(num_outputs: int, image_shape: ImageShape) -> ConvNet:
    """Return the paper's net for CIFAR-100."""
    return ConvNet(num_outputs, image_shape, (32, 64))


def cnn_64(num_outputs: int, image_shape: ImageShape) -> ConvNet:
    """Return the paper's net for TinyImageNet."""
    return ConvNet(num_outputs, image_shape, (32, 64, 128))

"""A trained model as one module: from stored pixels to the probability of every node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgrain.calibration.record import tempered
from fedgrain.images.images import Normalisation
from fedgrain.models.trained_model import TrainedModel
from fedgrain.trunks.frozen import normalised
from fedgrain.trunks.loading import exportable_part, load_trunk, probe_image
from fedgrain.trunks.spec import Preprocessing, TrunkSpec, blocks_trained
from fedgrain.trunks.weights import Weights


class WholeModel(nn.Module):
    """Images, uint8 [images, height, width, channels], to P of every node [images, nodes].

    Preprocessing, the frozen part of a trunk, the net and the head in evaluation mode.
    """

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        self.prepare: nn.Module
        self.frozen: nn.Module
        if model.trunk is None:
            self.prepare, self.frozen = _Scaled(model.normalisation), nn.Identity()
        else:
            self.prepare = _AsTrunkWants(model.image_shape, model.trunk.preprocessing)
            self.frozen = _frozen(model.trunk)
        self.net = model.net
        self.head = model.head
        self.temperature = 1.0 if model.calibration is None else model.calibration.temperature
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the probabilities."""
        logits = self.net(self.frozen(self.prepare(images)))
        return tempered(self.head, logits, self.temperature).exp()


class _Scaled(nn.Module):
    """Mean and deviation of a data set, as :class:`Normalisation` applies them."""

    scale: Tensor
    shift: Tensor

    def __init__(self, how: Normalisation) -> None:
        super().__init__()
        deviation = np.asarray(how.deviation, np.float32)
        self.register_buffer("scale", torch.tensor(np.float32(1 / 255) / deviation))
        self.register_buffer("shift", torch.tensor(np.asarray(how.mean, np.float32) / deviation))

    def forward(self, images: Tensor) -> Tensor:
        """Return normalised images [images, channels, height, width]."""
        return (images.float() * self.scale - self.shift).permute(0, 3, 1, 2)


class _AsTrunkWants(nn.Module):
    """Resize, crop and normalise as a trunk wants its images.

    Resizing a fixed size is linear in the pixels of a row and of a column: two matrices, made by
    torch's own interpolation, give the same result in any program that can multiply.
    """

    rows: Tensor  # [height after, height]
    columns: Tensor  # [width after, width]

    def __init__(self, shape: tuple[int, int, int], how: Preprocessing) -> None:
        super().__init__()
        self.how = how
        height, width, self.channels = shape
        shorter, side = min(height, width), how.resized
        self.resizes = shorter != side
        to = [round(length * side / shorter) for length in (height, width)]
        if self.resizes:
            for name, before, after in zip(("rows", "columns"), (height, width), to, strict=True):
                self.register_buffer(name, _resizing(before, after, how.interpolation))
        self.top, self.left = ((length - how.size) // 2 for length in to)

    def forward(self, images: Tensor) -> Tensor:
        """Return prepared images [images, 3, size, size]."""
        pixels = images.permute(0, 3, 1, 2).float()
        if self.channels == 1:
            pixels = pixels.expand(-1, 3, -1, -1)
        if self.resizes:
            pixels = (self.rows @ pixels @ self.columns.t()).clamp(0, 255)
        size = self.how.size
        pixels = pixels[:, :, self.top : self.top + size, self.left : self.left + size]
        return normalised(pixels, self.how)


def _resizing(before: int, after: int, interpolation: str) -> Tensor:
    """Return the matrix [after, before] that resizes one dimension."""
    alone = torch.eye(before)[None, None]
    resized = functional.interpolate(alone, (after, before), mode=interpolation, antialias=True)
    return resized[0, 0].contiguous()


def _frozen(spec: TrunkSpec) -> nn.Module:
    if spec.train == "all":
        return nn.Identity()
    trunk = load_trunk(spec.net, Weights(Path(spec.weights), spec.sha256)).requires_grad_(False)
    part = exportable_part(trunk, spec.train, probe_image(spec.preprocessing.size))
    if blocks_trained(spec.train):
        return part
    return nn.Sequential(part, nn.LayerNorm(spec.shape, elementwise_affine=False))

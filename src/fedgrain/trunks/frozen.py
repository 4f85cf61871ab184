"""The frozen part of a trunk at work: stored images to activations, the same bits everywhere."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fedgrain.trunks.fused import fused, traced
from fedgrain.trunks.loading import frozen_part, load_trunk, probe_image
from fedgrain.trunks.spec import Preprocessing, TrunkSpec, blocks_trained
from fedgrain.trunks.tail import normalise_features
from fedgrain.trunks.weights import Weights

_LARGE = 112  # pixels of a side from which a smaller batch fits the processor's cache better
_MANY = 1024  # images after which tracing has paid for itself


class Frozen:
    """Preprocessing and the frozen part, in batches of one shape.

    Features for a head come out normalised (:func:`fedgrain.trunks.tail.normalise_features`): this
    has no weights, so it is done once per image like everything below it.
    """

    def __init__(self, spec: TrunkSpec) -> None:
        self.preprocessing = spec.preprocessing
        self.at_once = 16 if spec.preprocessing.size <= _LARGE else 8
        trunk = load_trunk(spec.net, Weights(Path(spec.weights), spec.sha256))
        image = probe_image(spec.preprocessing.size)
        part = frozen_part(trunk.requires_grad_(False), spec.train, image)
        self._run: Any = fused(part, image)
        self._gives_features = not blocks_trained(spec.train)
        self._seen, self._hurried = 0, False

    def hurry(self) -> None:
        """Get ready for many images; the bits stay the same."""
        if not self._hurried:
            image = probe_image(self.preprocessing.size).expand(self.at_once, -1, -1, -1)
            self._run = traced(self._run, image.contiguous(memory_format=torch.channels_last))
            self._hurried = True

    def __call__(self, images: NDArray[np.uint8]) -> Tensor:
        """Return the activations [images, ...] of images [images, height, width, channels].

        A result does not depend on which other images are there: every call of the net has the
        same shape, the last one filled up with zeros.
        """
        self._seen += len(images)
        if self._seen > _MANY:
            self.hurry()
        return self.of_batches(
            prepared(images[start : start + self.at_once], self.preprocessing)
            for start in range(0, max(1, len(images)), self.at_once)
        )

    def of_batches(self, batches: Any) -> Tensor:
        """Return the activations of prepared images, given at most a batch at a time."""
        found = []
        size = self.preprocessing.size
        shape = (self.at_once, 3, size, size)
        batch = torch.empty(shape, memory_format=torch.channels_last)
        with torch.inference_mode():
            for images in batches:
                batch[: len(images)] = images
                batch[len(images) :] = 0
                found.append(self._run(batch)[: len(images)].clone())
            made = torch.cat(found)
            made = normalise_features(made) if self._gives_features else made
        return made.clone()  # not an inference tensor: it may enter autograd


@lru_cache(maxsize=1)
def frozen(spec: TrunkSpec) -> Frozen:
    """Return the frozen part of a trunk; the last one stays in memory."""
    return Frozen(spec)


def prepared(images: NDArray[np.uint8], how: Preprocessing) -> Tensor:
    """Resize, crop and normalise images as a trunk wants them [images, 3, size, size]."""
    stored = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2).float()
    if stored.shape[1] == 1:
        stored = stored.expand(-1, 3, -1, -1)
    return normalised(centred(stored, how), how)


def centred(pixels: Tensor, how: Preprocessing) -> Tensor:
    """Resize the shorter side and cut out the centre; pixels [images, channels, height, width]."""
    height, width = pixels.shape[2:]
    shorter, side = min(height, width), how.resized
    if shorter != side:
        to = (round(height * side / shorter), round(width * side / shorter))
        pixels = functional.interpolate(pixels, to, mode=how.interpolation, antialias=True)
        pixels = pixels.clamp(0, 255)
    top, left = ((length - how.size) // 2 for length in pixels.shape[2:])
    return pixels[:, :, top : top + how.size, left : left + how.size]


def normalised(pixels: Tensor, how: Preprocessing) -> Tensor:
    """Return (pixel/255 - mean) / deviation, in the memory layout of torch's channels_last."""
    mean, deviation = (torch.tensor(v).view(1, -1, 1, 1) for v in (how.mean, how.deviation))
    scaled = pixels / 255 - mean
    return (scaled / deviation).contiguous(memory_format=torch.channels_last)

"""Augmented views of an image: crop, mirror and colour, drawn by the seed."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgrain.randomness import numpy_generator
from fedgrain.trunks.frozen import normalised
from fedgrain.trunks.spec import Preprocessing
from fedgrain.trunks.timm_models import import_torchvision

_AREA = (0.4, 1.0)  # share of the image that a view shows
_RATIO = (3 / 4, 4 / 3)  # width to height
_COLOUR = 0.3  # most by which brightness, contrast and saturation change


def view(
    image: NDArray[np.uint8], how: Preprocessing, seed: int, number: int, which: int
) -> Tensor:
    """Return a view of an image [height, width, channels] as a trunk takes it [1, 3, size, size].

    It depends on the seed, the image's number and which of its views it is.
    """
    import_torchvision()
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional as transform

    draw = numpy_generator(seed, "augmented views", number, which)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    if pixels.shape[0] == 1:
        pixels = pixels.expand(3, -1, -1)
    top, left, height, width = _box(draw, *pixels.shape[1:])
    mode = InterpolationMode(how.interpolation)
    seen = transform.resized_crop(
        pixels, top, left, height, width, [how.size, how.size], mode, antialias=True
    )
    if draw.random() < 0.5:
        seen = transform.horizontal_flip(seen)
    factors = draw.uniform(1 - _COLOUR, 1 + _COLOUR, size=3)
    seen = transform.adjust_brightness(seen, float(factors[0]))
    seen = transform.adjust_contrast(seen, float(factors[1]))
    seen = transform.adjust_saturation(seen, float(factors[2]))
    return normalised(seen.float()[None], how)


def _box(draw: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int]:
    """Draw the part of the image that is seen: top, left, height and width."""
    area = height * width * draw.uniform(*_AREA)
    ratio = math.exp(draw.uniform(math.log(_RATIO[0]), math.log(_RATIO[1])))
    wide = max(1, min(width, round(math.sqrt(area * ratio))))
    high = max(1, min(height, round(math.sqrt(area / ratio))))
    top, left = int(draw.integers(height - high + 1)), int(draw.integers(width - wide + 1))
    return top, left, high, wide

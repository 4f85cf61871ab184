"""Does an exported model answer as our own does? No file is written before it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import ExportError
from fedgrain.models.trained_model import TrainedModel
from fedgrain.randomness import numpy_generator

TOLERANCE = 1e-4  # of a probability
_IMAGES = 16
Runner = Callable[[NDArray[np.uint8]], NDArray[Any]]  # images to probabilities of all nodes


@dataclass(frozen=True)
class Agreement:
    """How closely an export agrees with our own prediction."""

    images: int
    largest_difference: float  # of a probability


def check_agreement(what: str, run: Runner, model: TrainedModel) -> Agreement:
    """Refuse an export whose probabilities or leaves differ from ours on drawn images."""
    pixels = drawn_images(model.image_shape)
    found = np.concatenate([np.asarray(run(pixels[:1])), np.asarray(run(pixels[1:]))])
    return compared(what, found, model.node_log_probs(pixels).exp().cpu().numpy(), model)


def compared(what: str, found: NDArray[Any], own: NDArray[Any], model: TrainedModel) -> Agreement:
    """Compare tables of probabilities [images, nodes]; refuse what is not the same model."""
    if found.shape != own.shape:
        raise ExportError(
            f"{what}: it answers with {list(found.shape)} instead of {list(own.shape)} "
            "probabilities; nothing was written"
        )
    difference = float(np.abs(found - own).max(initial=0.0))
    if not difference <= TOLERANCE:  # also where it is not a number
        raise ExportError(
            f"{what}: its probabilities differ from the model's own by up to {difference:.2g}, "
            f"more than {TOLERANCE:g}; nothing was written"
        )
    leaves = model.taxonomy.leaves
    theirs, ours = found[:, leaves], own[:, leaves]
    rows = np.arange(len(ours))
    lost = ours.max(1) - ours[rows, theirs.argmax(1)]
    if (lost > 2 * difference).any():  # more than a near tie decided by the last bits
        raise ExportError(f"{what}: it predicts other leaves than the model; nothing was written")
    return Agreement(len(own), difference)


def drawn_images(shape: tuple[int, int, int], count: int = _IMAGES) -> NDArray[np.uint8]:
    """Return fixed images: noise, and coarse patches in which a net sees edges and areas."""
    draw = numpy_generator(0, "images that check an export")
    height, width, channels = shape
    noise = draw.integers(0, 256, (count // 2, *shape))
    patch = max(1, min(height, width) // 4)
    coarse = draw.integers(0, 256, (count - count // 2, -(-height // patch), -(-width // patch),
                                    channels))  # fmt: skip
    patches = coarse.repeat(patch, axis=1).repeat(patch, axis=2)[:, :height, :width]
    return np.concatenate([noise, patches]).astype(np.uint8)

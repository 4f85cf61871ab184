"""Images in whatever form a user has them, as the array a net takes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedgrain.errors import DataError
from fedgrain.images.decode import decode_image, float_pixels, upright_square, why_unreadable

Shape = tuple[int, int, int]  # height, width, channels
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # by the number of channels of an array


def as_pixels(images: Any, shape: Shape, interpolation: str = "bilinear") -> NDArray[np.uint8]:
    """Return images as uint8 [images, height, width, channels] of a shape.

    ``images`` is one image or several: a path, a PIL image, or an array of any size, [height,
    width] or [height, width, channels] with 1 to 4 channels; a torch tensor has its channels first.
    Where only the other order is an image, it is read in that order. Whole numbers are 0 to 255
    (16 bits keep the upper 8), fractions 0 to 1. An array [images, height, width, channels] of
    exactly this shape is returned as it is.
    """
    if isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.shape[1:] == shape:
        return images
    listed = list(_each(images))
    pixels = np.empty((len(listed), *shape), np.uint8)
    for number, image in enumerate(listed):
        try:
            pixels[number] = _one(image, shape, interpolation)
        except DataError as error:
            if len(listed) == 1 or isinstance(image, str | os.PathLike):
                raise
            raise DataError(f"image number {number}: {error}") from None
    return pixels


def _each(images: Any) -> Iterable[Any]:
    if isinstance(images, str | os.PathLike | Image.Image):
        return [images]
    dimensions = getattr(images, "ndim", None)  # of an array or a tensor
    if dimensions is not None:
        if dimensions not in (2, 3, 4):
            raise DataError(
                f"an array with {dimensions} dimensions; give [height, width], [height, width, "
                "channels] or [images, height, width, channels]"
            )
        return images if dimensions == 4 else [images]
    if not isinstance(images, Iterable):
        raise DataError(f"images must be paths, PIL images or arrays, not {images!r}")
    return images


def _one(image: Any, shape: Shape, interpolation: str) -> NDArray[np.uint8]:
    height, _, channels = shape
    if isinstance(image, str | os.PathLike):
        _check_square(shape, "image files")
        try:
            decoded = decode_image(Path(image), height, interpolation)
            return _in_channels(Image.fromarray(decoded), channels)
        except Exception as error:  # decoders raise anything on damaged files
            reason = why_unreadable(Path(image), error)
            raise DataError(f"{image}: not a readable image ({reason})") from None
    if isinstance(image, Image.Image):
        _check_square(shape, "PIL images")
        return _in_channels(upright_square(image, height, interpolation), channels)
    array = _eight_bits(_channels_last(_array_of(image)))
    if array.shape == shape:
        return array
    if array.ndim == 3 and array.shape[2] not in _MODES:
        raise DataError(f"an array of shape {list(array.shape)}; the channels, 1 to 4, come last")
    if array.ndim not in (2, 3) or not array.size:
        raise DataError(f"an array of shape {list(array.shape)} is not an image")
    _check_square(shape, f"arrays of shape {list(array.shape)}")
    return _in_channels(upright_square(_picture(array), height, interpolation), channels)


def _array_of(image: Any) -> NDArray[Any]:
    if type(image).__module__.partition(".")[0] == "torch":
        image = image.detach().cpu()
        image = (image.float() if image.is_floating_point() else image).numpy()
        if image.ndim == 3 and (image.shape[0] in _MODES or image.shape[2] not in _MODES):
            image = image.transpose(1, 2, 0)
    array = np.asarray(image)
    if array.dtype.kind not in "biuf":
        raise DataError(f"a {type(image).__name__} is not a path, a PIL image or an array")
    return array


def _channels_last(array: NDArray[Any]) -> NDArray[Any]:
    """Return [channels, height, width] as [height, width, channels] where it can only be that."""
    if array.ndim == 3 and array.shape[2] not in _MODES and array.shape[0] in _MODES:
        return array.transpose(1, 2, 0)
    return array


def _eight_bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype == np.uint16:
        return (array >> 8).astype(np.uint8)
    if array.dtype.kind == "f":
        if array.size and float(np.min(array)) < 0.0:
            raise DataError(
                f"fractions from {float(np.min(array)):g}; pixels go from 0 to 1: give images "
                "before they are normalised"
            )
        if array.size and not float(np.max(array)) <= 1.0:
            raise DataError(
                f"fractions up to {float(np.max(array)):g}; divide by 255 to have them from 0 to "
                "1, or give uint8"
            )
        return float_pixels(array)
    if array.size and not (array.min() >= 0 and array.max() <= 255):
        raise DataError(
            f"whole numbers from {array.min()} to {array.max()}; pixels go from 0 to 255"
        )
    return array.astype(np.uint8)


def _picture(array: NDArray[np.uint8]) -> Image.Image:
    if array.ndim == 2:
        return Image.fromarray(array)
    planes = [Image.fromarray(np.ascontiguousarray(array[..., n])) for n in range(array.shape[2])]
    return Image.merge(_MODES[len(planes)], planes)


def _in_channels(image: Image.Image, channels: int) -> NDArray[np.uint8]:
    if channels == 1:
        return np.asarray(image.convert("L"), np.uint8)[..., None]
    if channels != 3:
        raise DataError(f"the model takes images of {channels} channels; give arrays of its shape")
    return np.asarray(image, np.uint8)


def _check_square(shape: Shape, what: str) -> None:
    if shape[0] != shape[1]:
        raise DataError(
            f"the model takes images of {shape[0]} x {shape[1]} pixels, not {what}; give arrays of "
            f"shape {list(shape)}"
        )

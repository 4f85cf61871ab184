"""A picture for people to look at: whole, upright and small, made anew from a file's pixels."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageOps

from fedgrain.images.decode import as_rgb, bombs_are_errors, opened_image

_QUALITY = 85


def whole_picture(path: str | Path, side: int) -> bytes:
    """Return an image file as a JPEG of at most ``side`` pixels a side; nothing else of it is kept.

    Only plain files that are images are read, as everywhere
    (:func:`fedgrain.images.decode.opened_image`).
    """
    with bombs_are_errors(), opened_image(path) as image:
        image.draft("RGB", (side, side))  # a large JPEG is decoded smaller, which is faster
        picture = as_rgb(ImageOps.exif_transpose(image))
        scale = min(1.0, side / max(picture.size))
        size = tuple(max(1, round(edge * scale)) for edge in picture.size)
        small = picture.resize((size[0], size[1]), Image.Resampling.BILINEAR)
        into = io.BytesIO()
        small.save(into, format="JPEG", quality=_QUALITY)
        return into.getvalue()

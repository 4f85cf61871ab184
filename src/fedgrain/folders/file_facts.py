"""What can be told of image files without decoding them: size, kind of pixels, and their bytes."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fedgrain.cores import available_cores
from fedgrain.images.decode import opened_image

_ORIENTATION = 0x0112  # of EXIF
_KINDS = {
    "1": "black and white", "L": "grey", "LA": "grey with transparency", "P": "palette",
    "PA": "palette with transparency", "RGB": "colour", "RGBA": "colour with transparency",
    "CMYK": "CMYK", "YCbCr": "colour", "F": "floating point",
}  # fmt: skip


@dataclass(frozen=True)
class FileFacts:
    """One file; width, height and kind are those of the file, before it is turned upright."""

    digest: bytes  # of all bytes; empty if the file cannot be read
    width: int = 0
    height: int = 0
    kind: str = ""
    turned: bool = False  # by its EXIF orientation


def facts_of(paths: Sequence[str | Path]) -> list[FileFacts]:
    """Return the facts of every file, on all cores."""
    with warnings.catch_warnings(), ThreadPoolExecutor(available_cores()) as threads:
        warnings.simplefilter("ignore")  # Pillow's, once per image
        return list(threads.map(_facts, paths))  # hashing releases the GIL


def _facts(path: str | Path) -> FileFacts:
    try:
        with Path(path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return FileFacts(b"")
    try:
        with opened_image(path) as image:
            width, height = image.size
            turned = image.getexif().get(_ORIENTATION, 1) in range(2, 9)
            kind = "16-bit grey" if image.mode.startswith("I") else _KINDS.get(image.mode)
            return FileFacts(digest, width, height, kind or image.mode, turned)
    except Exception:  # decoders raise anything on damaged files
        return FileFacts(digest)

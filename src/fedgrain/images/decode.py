"""From image files to one array on disk, on all cores.

Workers write straight into the array's file, so no pixels are sent between processes, and 500,000
images at 224 need no more memory than a few.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from tqdm import tqdm

from fedgrain.cores import process_map
from fedgrain.errors import DataError
from fedgrain.images.cache import Stored, create_images, drop_images, load_or_build
from fedgrain.text import encodable

MAX_UNREADABLE = 0.01  # default share of files that may be unreadable and are skipped
BLOCK = 128  # images per task
_FEW = 1000  # below this, starting processes takes longer than decoding
_RESAMPLING = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
# The formats that are opened, whatever a file is called: others (EPS) may start programs.
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF")


@dataclass(frozen=True)
class Listing:
    """Files to decode with their class numbers and splits, in the order of the array."""

    paths: Sequence[str]
    labels: NDArray[np.int32]  # [images]
    splits: NDArray[np.int8]  # [images]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Decoding:
    """How to decode: to which size, with how many processes, what to tolerate."""

    size: int
    max_unreadable: float = MAX_UNREADABLE
    workers: int | None = None
    progress: bool | None = None  # None: only where standard error is a terminal
    interpolation: str = "bilinear"  # or bicubic

    def __post_init__(self) -> None:
        if not 1 <= self.size <= 4096:
            raise DataError(f"the image size must lie between 1 and 4096, not {self.size}")
        if not 0 <= self.max_unreadable <= 1:
            raise DataError(f"max_unreadable is a share from 0 to 1, not {self.max_unreadable}")


def decode_image(path: str | Path, size: int, interpolation: str = "bilinear") -> NDArray[np.uint8]:
    """Decode an image to RGB [size, size, 3]: upright by EXIF, shorter side resized, centre crop.

    Greyscale, palette and CMYK become RGB, 16-bit grey keeps its upper 8 bits, fractions are read
    as from 0 to 1 or from 0 to 255, and transparent pixels become white. Only plain files of the
    :data:`_FORMATS` are read.
    """
    with bombs_are_errors(), opened_image(path) as image:
        return np.asarray(upright_square(image, size, interpolation), dtype=np.uint8)


@contextmanager
def opened_image(path: str | Path) -> Iterator[Image.Image]:
    """Open a plain file as an image of one of the formats; its pixels are not decoded yet."""
    with _opened(path) as file, _formats_named(), Image.open(file, formats=_FORMATS) as image:
        yield image


def upright_square(image: Image.Image, size: int, interpolation: str = "bilinear") -> Image.Image:
    """Return an image as RGB: upright by EXIF, shorter side resized to ``size``, centre crop."""
    upright = as_rgb(ImageOps.exif_transpose(image))
    if upright.size == (size, size):
        return upright
    width, height = upright.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side)
    return upright.resize((size, size), _RESAMPLING[interpolation], box=box)


def why_unreadable(path: str | Path, error: Exception) -> str:
    """Return the reason why a file could not be decoded, without its path."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).replace(repr(str(path)), "").replace(str(path), "").strip() or (
        type(error).__name__
    )


def shorter_side(path: str | Path) -> int | None:
    """Return the shorter side of an image in pixels, from its header; None if it is unreadable."""
    try:
        with _opened(path) as file, Image.open(file, formats=_FORMATS) as image:
            return min(image.size)
    except Exception:  # whatever is wrong with a file is reported when it is decoded
        return None


def kind_of(mode: int) -> str:
    """Return the kind of a file that is not a plain file, for messages."""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _opened(path: str | Path) -> IO[bytes]:
    """Open a plain file; reading from anything else could block or have side effects."""
    _check_plain(Path(path).stat().st_mode)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_plain(os.fstat(descriptor).st_mode)  # it may have been replaced meanwhile
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _check_plain(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise DataError(f"{kind_of(mode)}, not a plain file")


@contextmanager
def _formats_named() -> Iterator[None]:
    """Raise an error that lists the formats; Pillow's would show the file object."""
    try:
        yield
    except UnidentifiedImageError:
        raise DataError(f"not an image of the formats {', '.join(_FORMATS)}") from None


def as_rgb(image: Image.Image) -> Image.Image:
    """Return an image of any kind as RGB."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode == "I" or image.mode.startswith("I;16"):
        deep = np.asarray(image).astype(np.int64)
        grey = np.clip(deep >> 8, 0, 255)
        grey[deep == image.info.get("transparency", -1)] = 255
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        return Image.fromarray(float_pixels(np.asarray(image))).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layer = image.convert("RGBA")
        paper = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(paper, layer).convert("RGB")
    return image.convert("RGB")


def float_pixels(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels that are fractions, from 0 to 1 or else from 0 to 255, as whole numbers."""
    low, high = float(np.min(values, initial=0)), float(np.max(values, initial=0))
    if not (low >= 0 and high <= 255):  # also where a value is not a number
        raise DataError(
            f"pixels from {low:g} to {high:g}; as fractions they must lie between 0 and 1, or "
            "between 0 and 255"
        )
    return np.asarray(np.rint(values * (255 if high <= 1 else 1)), np.uint8)


@contextmanager
def bombs_are_errors() -> Iterator[None]:
    """Refuse images of more than 89 million pixels, of which Pillow only warns.

    Its other warnings, such as a damaged EXIF block, would come once per image.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def decode_files(paths: Sequence[str], target: Path, decoding: Decoding) -> dict[int, str]:
    """Decode files into the rows of the array ``target``; return the rows that failed and why."""
    blocks = [
        (
            str(target),
            start,
            list(paths[start : start + BLOCK]),
            decoding.size,
            decoding.interpolation,
        )
        for start in range(0, len(paths), BLOCK)
    ]
    bar = tqdm(
        total=len(paths),
        desc="decoding",
        unit=" images",
        disable=None if decoding.progress is None else not decoding.progress,
    )
    failures: dict[int, str] = {}
    with bar, _mapper(len(paths), decoding.workers) as mapper:
        for block, failed in zip(blocks, mapper(_decode_block, blocks), strict=True):
            failures.update(failed)
            bar.update(len(block[2]))
    return failures


@contextmanager
def _mapper(count: int, workers: int | None) -> Iterator[Any]:
    """Yield a ``map``: over processes, or in this process when there is little to do."""
    try:
        with process_map(1 if count < _FEW else workers) as mapper:
            yield mapper
    except BrokenProcessPool:
        raise DataError(
            "a decoding process ended unexpectedly; in a script of yours, call fedgrain below "
            "`if __name__ == '__main__':`, otherwise try workers=1 to see why"
        ) from None


def _decode_block(task: tuple[str, int, list[str], int, str]) -> dict[int, str]:
    target, start, paths, size, interpolation = task
    first = np.load(target, mmap_mode="r").offset
    failures: dict[int, str] = {}
    with Path(target).open("r+b", buffering=0) as file:  # a write to a full disk raises an error
        for row, path in enumerate(paths, start):
            try:
                image = decode_image(path, size, interpolation)
            except Exception as error:  # decoders raise anything on damaged files
                failures[row] = why_unreadable(path, error)
                continue
            file.seek(first + row * image.nbytes)
            pixels = image.tobytes()
            while pixels:  # a full disk may write a part before it raises an error
                pixels = pixels[file.write(pixels) :]
    return failures


def load_or_decode(
    key: dict[str, Any], listing: Callable[[], Listing], decoding: Decoding
) -> Stored:
    """Return decoded images from the cache, decoding them the first time; warn of skipped files.

    ``listing()`` is called only when the cache has no entry for ``key`` and the size.
    """

    def build(folder: Path) -> dict[str, Any]:
        return _build(folder, listing(), decoding)

    how = {} if decoding.interpolation == "bilinear" else {"interpolation": decoding.interpolation}
    stored = load_or_build({**key, "size": decoding.size, **how}, build)
    _check_share(stored.about, decoding.max_unreadable)
    for text in stored.about["warnings"]:
        warnings.warn(text, stacklevel=3)
    return stored


def _build(folder: Path, listing: Listing, decoding: Decoding) -> dict[str, Any]:
    count = len(listing.paths)
    path = create_images(folder, count, decoding.size)
    failures = decode_files(listing.paths, path, decoding)
    listed: list[Any] = [
        [row, encodable(f"{listing.paths[row]} ({failures[row]})")] for row in sorted(failures)
    ]
    about: dict[str, Any] = {"count": count, "unreadable": listed, "warnings": listing.warnings}
    _check_share(about, decoding.max_unreadable)
    kept = np.setdiff1d(np.arange(count), np.array(sorted(failures), dtype=np.int64))
    if listed:
        shown = "; ".join(text for _, text in listed[:5])
        more = f"; and {len(listed) - 5} more" if len(listed) > 5 else ""
        about["warnings"] = [
            *listing.warnings,
            f"{len(listed)} of {count} images cannot be read and were skipped: {shown}{more}",
        ]
        drop_images(path, kept)
    np.save(folder / "labels.npy", listing.labels[kept])
    np.save(folder / "splits.npy", listing.splits[kept])
    return about


def _check_share(about: dict[str, Any], max_unreadable: float) -> None:
    bad, count = about["unreadable"], about["count"]
    if len(bad) > max_unreadable * count or (bad and len(bad) == count):
        shown = "; ".join(text for _, text in bad[:10])
        more = f"; and {len(bad) - 10} more" if len(bad) > 10 else ""
        raise DataError(
            f"{len(bad)} of {count} images cannot be read, more than the allowed share of "
            f"{max_unreadable:g}: {shown}{more}; repair or remove them, or raise max_unreadable "
            "(--max-unreadable)"
        )

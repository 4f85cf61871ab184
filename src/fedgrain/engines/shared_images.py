"""One copy of the images, or of their features, for all processes: a mapped file or memory.

Images are never pickled. A memory-mapped array is opened again by its file name. An array in memory
is moved once into an anonymous file of the kernel (memfd), which cannot be left behind: it
disappears with the last process that maps it, however that process ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class MappedImages:
    """Where another process finds the images."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str

    def open(self) -> NDArray[Any]:
        """Map the images into this process."""
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)


def shared(images: NDArray[Any]) -> NDArray[Any]:
    """Return the images as an array other processes can map: itself if it is mapped already."""
    if _is_mapped(images):
        return images
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fedgrain-images")
        path = f"/proc/{os.getpid()}/fd/{descriptor}"
    else:  # no memfd outside Linux: a file without a name would not be found by the workers
        descriptor, path = tempfile.mkstemp(prefix="fedgrain-images-")
    os.ftruncate(descriptor, max(1, images.nbytes))
    copy = np.memmap(path, images.dtype, "r+", 0, images.shape)
    copy[...] = images
    copy.flags.writeable = False
    weakref.finalize(copy._mmap, _forget, descriptor, path)  # type: ignore[attr-defined]
    return copy


def _forget(descriptor: int, path: str) -> None:
    """Free the memory when no array maps it."""
    os.close(descriptor)
    if not path.startswith("/proc/"):
        os.unlink(path)  # noqa: PTH108 (pathlib may be gone when the interpreter ends)


def handle(images: NDArray[Any]) -> MappedImages:
    """Return where another process finds images that :func:`shared` returned."""
    assert isinstance(images, np.memmap)
    start = _address(np.frombuffer(images._mmap, np.uint8))  # type: ignore[attr-defined]
    in_file = images.offset - images.offset % mmap.ALLOCATIONGRANULARITY
    place = in_file + _address(images) - start
    return MappedImages(str(images.filename), place, images.shape, images.dtype.str)


def _is_mapped(images: NDArray[Any]) -> bool:
    return (
        isinstance(images, np.memmap)
        and images.filename is not None
        and getattr(images, "_mmap", None) is not None
        and images.flags.c_contiguous
    )


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])

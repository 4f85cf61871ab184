"""Decoded images on disk: a directory of arrays per (source, size, sample), whole or not at all.

The second load maps ``images.npy`` into memory without reading it, whatever its size.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.data.archives import move_into_place, unpack
from fedgrain.data.places import Layout, cache_directory
from fedgrain.errors import DataError

FORMAT = 1  # raise it when what is stored, or how an image is decoded, changes


@dataclass(frozen=True)
class Stored:
    """What a cache entry holds; labels are class numbers in the data set's own order."""

    images: NDArray[np.uint8]  # [images, height, width, channels], memory-mapped
    labels: NDArray[np.int32]  # [images]
    splits: NDArray[np.int8]  # [images]
    about: dict[str, Any]

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Files that were skipped, each with the reason."""
        return tuple(text for _, text in self.about.get("unreadable", ()))


def load_or_build(key: dict[str, Any], build: Callable[[Path], dict[str, Any]]) -> Stored:
    """Return the entry for a key; ``build`` writes images, labels and splits.npy into a directory.

    What ``build`` returns (JSON) is kept beside them. Two processes that want the same entry wait
    for one another.
    """
    content = json.dumps({"format": FORMAT, **key}, sort_keys=True)
    name = f"{key['dataset']}-{hashlib.sha256(content.encode()).hexdigest()[:20]}"
    entry = cache_directory() / "arrays" / name
    if not entry.is_dir():
        with only_one(entry):
            if not entry.is_dir():
                _build(entry, build)
    about = json.loads((entry / "about.json").read_text(encoding="utf-8"))
    images = np.load(entry / "images.npy", mmap_mode="r")
    return Stored(images, np.load(entry / "labels.npy"), np.load(entry / "splits.npy"), about)


def _build(entry: Path, build: Callable[[Path], dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{entry.name}.", dir=entry.parent) as aside:
        folder = Path(aside) / "content"
        folder.mkdir()
        about = build(folder)
        (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")
        for path in folder.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        move_into_place(folder, entry)


def create_images(folder: Path, count: int, size: int) -> Path:
    """Create ``images.npy`` for RGB images of a size, on disk, and return its path."""
    path = folder / "images.npy"
    needed = count * size * size * 3
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"decoding {count} images at {size}x{size} needs {needed / 1e9:.1f} GB in {folder}, "
            f"where {free / 1e9:.1f} GB are free; point FEDGRAIN_CACHE at a larger disk"
        )
    np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(count, size, size, 3))
    return path


def unpacked(archive: Path) -> Path:
    """Return the directory an archive is unpacked into, unpacking it the first time."""
    digest = hashlib.sha256(identity(archive).encode()).hexdigest()[:12]
    target = cache_directory() / "unpacked" / f"{archive.name.split('.')[0]}-{digest}"
    if not target.is_dir():
        with only_one(target):
            if not target.is_dir():
                unpack(archive, target)
    return target


def folder_of(source: Path, layout: Layout) -> Path:
    """Return a source as an unpacked folder, unpacking an archive into the cache."""
    if source.is_dir():
        return source
    outer = unpacked(source)
    for folder in (outer, *sorted(path for path in outer.iterdir() if path.is_dir())):
        if layout.recognises(folder):
            return folder
    raise DataError(
        f"{source}: does not hold {layout.dataset} in its official layout; get it again"
    )


def identity(*paths: Path) -> str:
    """Return path, size and time of change of files or directories: other content, other text.

    A directory's time changes when a file in it is added, removed or renamed. A picture that is
    overwritten in place is not noticed.
    """
    states = [(path.resolve(), path.stat()) for path in paths]
    return "\n".join(f"{path}|{state.st_size}|{state.st_mtime_ns}" for path, state in states)


@contextmanager
def only_one(target: Path) -> Iterator[None]:
    """Hold a lock while building ``target`` (not on Windows, where both build and one wins)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

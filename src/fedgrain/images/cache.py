"""Decoded images on disk: a directory of arrays per (source, size, sample), whole or not at all.

The second load checks the arrays against their checksums and maps ``images.npy`` into memory,
whatever its size. An entry that is damaged is made again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.checksums import digest, read_checked, write_checked
from fedgrain.cores import available_cores, refuse_in_a_second_run_of_the_script
from fedgrain.errors import DataError, FedgrainError
from fedgrain.files import allocate, open_own
from fedgrain.images.archives import move_into_place, unpack
from fedgrain.images.places import Layout, cache_directory, writing_cache

FORMAT = 1  # raise it when the stored content, or the decoding of images, changes
_PIXELS = np.dtype(np.uint8)
_ARRAYS = ("images.npy", "labels.npy", "splits.npy")
BLOCK = 2**26  # bytes hashed at a time, on every core
_LOG = logging.getLogger("fedgrain")


@dataclass(frozen=True)
class Stored:
    """The content of a cache entry; labels are class numbers in the data set's own order."""

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

    The return value of ``build`` (JSON) is stored with them. If two processes want the same entry,
    one waits for the other. A damaged entry is built again.
    """
    found = load_or_make("arrays", key["dataset"], key, _ARRAYS, build, what="the decoded images")
    assert found is not None  # it is only where a caller says that there is no room
    images, labels, splits = (found[0][name] for name in _ARRAYS)
    return Stored(images, np.array(labels), np.array(splits), found[1])


_Entry = tuple[dict[str, NDArray[Any]], dict[str, Any]]  # arrays by file, mapped; and about.json


def load_or_make(
    folder: str,
    name: str,
    key: dict[str, Any],
    arrays: Sequence[str],
    build: Callable[[Path], dict[str, Any]],
    *,
    what: str,
    room: Callable[[], bool] = lambda: True,
) -> _Entry | None:
    """Return an entry of the cache, mapped, and what ``build`` returned; build it the first time.

    ``build`` writes the ``arrays`` into a directory. None if the entry is missing and there is no
    ``room`` for it.
    """
    content = json.dumps({"format": FORMAT, **key}, sort_keys=True)
    name = f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:20]}"
    entry = cache_directory() / folder / name
    stored = _load(entry, arrays)
    if stored is None:
        with only_one(entry):
            stored = _load(entry, arrays, warn=True)  # another process may have made it meanwhile
            if stored is None:
                if not room():
                    return None
                _build(entry, arrays, build, what)
                stored = _load(entry, arrays)
    elif sys.platform != "win32":
        with suppress(OSError):  # a cache that may only be read keeps what was left in it
            _remove_left_behind(entry.parent)  # by a kill right after an entry took its place
    if stored is None:
        raise DataError(f"{entry}: cannot be read right after it was written; check the disk")
    return stored


def _load(entry: Path, arrays: Sequence[str] = _ARRAYS, *, warn: bool = False) -> _Entry | None:
    """Return the content of an entry; None if it is missing or damaged."""
    if not os.path.lexists(entry):
        return None
    try:
        about, checked = read_checked(entry / "about.json", "", DataError)
        written = about.pop("arrays", None)
        if not checked or written != {name: _file_digest(entry / name) for name in arrays}:
            raise DataError("does not match its checksums, or has none")
        return {name: np.load(entry / name, mmap_mode="r") for name in arrays}, about
    except (FedgrainError, OSError, ValueError) as error:
        if warn:
            _LOG.warning("fedgrain: rebuilding the cache entry %s: %s", entry, error)
        return None


def _file_digest(path: Path) -> str:
    """Return a checksum over the checksums of a file's blocks."""
    with path.open("rb") as file:

        def block(start: int) -> bytes:
            return hashlib.sha256(os.pread(file.fileno(), BLOCK, start)).digest()

        starts = range(0, os.fstat(file.fileno()).st_size, BLOCK)
        with ThreadPoolExecutor(max(1, min(len(starts), available_cores()))) as threads:
            return digest(threads.map(block, starts))


def _build(
    entry: Path, arrays: Sequence[str], build: Callable[[Path], dict[str, Any]], what: str
) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{entry.name}.", dir=entry.parent) as aside:
        folder = Path(aside) / "content"
        folder.mkdir()
        with _room(folder, what):
            about = build(folder)
            digests = {name: _file_digest(folder / name) for name in arrays}
            write_checked(folder / "about.json", {**about, "arrays": digests}, indent=None)
            for path in folder.iterdir():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        if os.path.lexists(entry):
            entry.rename(Path(aside) / "damaged")
        move_into_place(folder, entry)


@contextmanager
def _room(folder: Path, what: str) -> Iterator[None]:
    """Raise a clear error when the disk is full; numpy only says how much it has written."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if not full and not (error.errno is None and "written" in str(error)):
            raise
        raise DataError(
            f"{folder.parent.parent}: no space for {what}; free some, or point "
            "FEDGRAIN_CACHE at a larger disk"
        ) from None


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
    return create_array(path, (count, size, size, 3), np.dtype(np.uint8))


def create_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Path:
    """Create a file for an array, with its space reserved on the disk, and return its path."""
    with path.open("w+b") as file:
        _write_header(file, shape, dtype)
        allocate(file.fileno(), file.tell() + int(np.prod(shape)) * dtype.itemsize)
    return path


def drop_images(path: Path, kept: NDArray[np.int64]) -> None:
    """Keep some of the images of ``images.npy``, in order, without making a copy."""
    rows = np.load(path, mmap_mode="r+")
    for place, row in enumerate(kept.tolist()):
        if place != row:  # rows only move to the front, over what was moved or dropped
            rows[place] = rows[row]
    rows.flush()
    shape, start = (len(kept), *rows.shape[1:]), rows.offset
    del rows
    with path.open("r+b") as file:
        _write_header(file, shape)
        if file.tell() != start:  # numpy pads the header, so its length should not change
            raise RuntimeError(f"the header of {path} has become longer")
        file.truncate(start + int(np.prod(shape)))


def _write_header(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any] = _PIXELS) -> None:
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


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
    """Return a text of the paths, sizes and modification times of files or directories.

    A directory's time changes when a file in it is added, removed or renamed, but not when an image
    is overwritten in place.
    """
    states = [(path.resolve(), path.stat()) for path in paths]
    return "\n".join(f"{path}|{state.st_size}|{state.st_mtime_ns}" for path, state in states)


def source_identity(source: Path, class_folders: Iterable[Path], *others: Path) -> str:
    """Identify an archive, or an unpacked one by its class folders that are there and by others.

    Listing the 1.3 million files of ImageNet would be slow.
    """
    if not source.is_dir():
        return identity(source)
    return identity(*others, *(folder for folder in class_folders if folder.is_dir()))


@contextmanager
def only_one(target: Path) -> Iterator[None]:
    """Hold a lock while building ``target`` (not on Windows, where both build and one wins).

    Unfinished builds that killed processes have left here are removed.
    """
    refuse_in_a_second_run_of_the_script()
    with writing_cache():
        target.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with writing_cache():
        lock = open_own(target.with_name(f".{target.name}.lock"), os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _remove_left_behind(target.parent, target.name)
        yield
    finally:
        os.close(lock)


def _remove_left_behind(folder: Path, ours: str | None = None) -> None:
    """Remove unfinished builds of processes that are gone: nobody holds their lock.

    ``ours`` is the entry whose lock this process holds.
    """
    import fcntl

    for path in folder.iterdir():
        named = re.fullmatch(r"\.(.+)\.[a-z0-9_]{8}", path.name)
        if named is None or path.is_symlink() or not path.is_dir():
            continue
        if named[1] == ours:
            shutil.rmtree(path, ignore_errors=True)
            continue
        lock = path.with_name(f".{named[1]}.lock")
        if not lock.exists():
            continue
        descriptor = open_own(lock, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)

"""Where data is found: ``FEDGRAIN_DATA``, then the cache directory; unpacked or as an archive."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_dir

from fedgrain.errors import DataError

_ARCHIVE_ENDINGS = (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar", ".zip")
_NOT_OURS_TO_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


@dataclass(frozen=True)
class Layout:
    """How to recognise a data set on disk."""

    dataset: str
    folders: tuple[str, ...]  # usual names of the unpacked folder
    archives: tuple[str, ...]  # how the archive's name starts
    recognises: Callable[[Path], bool]  # whether a folder is the unpacked data
    official: str  # the file to put there by hand
    site: str | None = None  # where that file can be downloaded, with its md5
    md5: str | None = None


def cache_directory() -> Path:
    """Return ``FEDGRAIN_CACHE`` or the user's cache directory; it need not exist yet."""
    chosen = os.environ.get("FEDGRAIN_CACHE")
    return Path(chosen).expanduser() if chosen else Path(user_cache_dir("fedgrain"))


@contextmanager
def writing_cache() -> Iterator[None]:
    """Name the way out where the cache cannot be written; a full disk is another matter."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_OURS_TO_WRITE:
            raise
        raise DataError(
            f"{error.filename or cache_directory()}: the cache cannot be written "
            f"({error.strerror}); point FEDGRAIN_CACHE at a folder that can"
        ) from None


def data_directories(root: str | Path | None = None) -> list[Path]:
    """Return the directories to search, in order; only ``root`` if it is given."""
    if root is not None:
        return [Path(root).expanduser()]
    given = os.environ.get("FEDGRAIN_DATA")
    places = [Path(given).expanduser()] if given else []
    return [*places, cache_directory()]


def find_source(layout: Layout, root: str | Path | None = None) -> Path | None:
    """Return the unpacked folder or the archive of a data set, or None."""
    for directory in data_directories(root):
        if directory.is_file() and _is_archive(directory):
            return directory
        for folder in (directory, *(directory / name for name in layout.folders)):
            if folder.is_dir() and layout.recognises(folder):
                return folder
        if directory.is_dir():
            for path in sorted(directory.iterdir()):
                if path.is_file() and path.name.startswith(layout.archives) and _is_archive(path):
                    return path
    return None


def require_source(layout: Layout, root: str | Path | None = None) -> Path:
    """Return the unpacked folder or the archive of a data set; an error says where to put it."""
    found = find_source(layout, root)
    if found is not None:
        return found
    searched = " or ".join(str(place) for place in data_directories(root))
    get = f"run: fedgrain data get {layout.dataset}, or " if layout.site else ""
    raise DataError(
        f"{layout.dataset} was not found in {searched}; {get}put {layout.official} there, or "
        "point FEDGRAIN_DATA at the directory that holds it"
    )


def _is_archive(path: Path) -> bool:
    return path.name.endswith(_ARCHIVE_ENDINGS)

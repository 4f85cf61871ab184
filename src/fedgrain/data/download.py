"""``fedgrain data get``: the official archives, checked, unpacked whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pooch

from fedgrain.catalogue import DOWNLOADABLE
from fedgrain.data.load import layouts
from fedgrain.errors import DataError
from fedgrain.images.archives import unpack
from fedgrain.images.cache import only_one
from fedgrain.images.places import Layout, cache_directory

ATTEMPTS = 3


def get(dataset: str, *, progress: bool | None = None) -> Path:
    """Download a data set into the cache directory and unpack it; return the unpacked folder.

    ``progress`` None shows a bar only where standard error is a terminal.
    """
    if dataset not in DOWNLOADABLE:
        raise DataError(
            f"{dataset!r} cannot be downloaded; fedgrain gets {' and '.join(DOWNLOADABLE)} only"
        )
    layout = layouts()[dataset]
    folder = cache_directory() / layout.folders[0]
    shown = sys.stderr.isatty() if progress is None else progress
    with only_one(folder):
        if not (folder.is_dir() and layout.recognises(folder)):
            archive = _fetch(layout, folder.parent, shown)
            _unpack_into(archive, folder, layout)
            archive.unlink()
    return folder


def _fetch(layout: Layout, cache: Path, progress: bool) -> Path:
    """Download with a checksum; pooch keeps a file only if it is complete and correct."""
    name, url = layout.official, _address(layout)
    pooch.get_logger().setLevel("WARNING")  # it announces every attempt
    for attempt in range(1, ATTEMPTS + 1):
        try:
            downloader = pooch.HTTPDownloader(progressbar=progress, timeout=60)
            found = pooch.retrieve(url, f"md5:{layout.md5}", name, cache, downloader=downloader)
            return Path(found)
        except OSError as error:  # any network problem
            failure = DataError(
                f"{url} cannot be downloaded ({_reason(error)}); get {name} elsewhere "
                f"and put it into {cache} or the directory in FEDGRAIN_DATA"
            )
        except ValueError:  # pooch raises it for a wrong checksum
            failure = DataError(
                f"{url}: what arrived does not have the official md5 {layout.md5} "
                f"({attempt} attempts); nothing was kept: try again later, or get {name} "
                f"elsewhere and put it into {cache}"
            )
    raise failure


def _address(layout: Layout) -> str:
    """Return where the archive is; ``FEDGRAIN_MIRROR`` replaces the site, the checksum stays."""
    site = os.environ.get("FEDGRAIN_MIRROR") or layout.site or ""
    return f"{site.rstrip('/')}/{layout.official}"


def _reason(error: OSError) -> str:
    plain = {
        "ConnectionError": "no connection",
        "ConnectTimeout": "no answer",
        "ReadTimeout": "no answer",
        "ChunkedEncodingError": "the transfer broke off",
    }
    return plain.get(type(error).__name__, str(error))


def _unpack_into(archive: Path, folder: Path, layout: Layout) -> None:
    """Unpack to a temporary folder and rename it to its official name when complete."""
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as aside:
        content = Path(aside) / "content"
        unpack(archive, content)
        inside = content / folder.name
        if not layout.recognises(inside):
            raise DataError(f"{archive}: does not hold {folder.name} in its official layout")
        inside.rename(folder)

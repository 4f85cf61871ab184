"""The image files that a user names: files, folders, patterns, manifests and lists of paths."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrain.errors import DataError, FedgrainError
from fedgrain.files import read_text
from fedgrain.folders.folder import ENDINGS
from fedgrain.folders.links import Links
from fedgrain.parsing import csv_rows

_LISTS = (".txt", ".lst")
_LINK = "leads out of its folder by a link; --allow-links follows it"


@dataclass(frozen=True)
class ImagePath:
    """A file to read, or why it cannot be one."""

    path: str
    problem: str = ""


def find_images(sources: Sequence[str | Path], *, allow_links: bool = False) -> list[ImagePath]:
    """Return the files that the sources name, in their order, each once.

    A source is a file, a folder (all images in it and below), a pattern such as ``photos/**/*.jpg``
    (one that the shell has left alone), a manifest (``.csv`` with a column ``path``), a list
    (``.txt``, one path per line) or ``-``, a list on standard input. Paths in a manifest or a list
    start at its folder; in a list they may also start at the working directory.

    What is not there is returned with its problem. A manifest or a list that cannot be read is an
    error. A link that leads out of a folder, or out of that of a manifest, is a problem unless
    ``allow_links`` is set; a link that is itself a source is followed.
    """
    found: dict[str, ImagePath] = {}
    for source in map(str, sources):
        for image in _images_of(source, allow_links):
            found.setdefault(image.path, image)
    return list(found.values())


def _images_of(source: str, allow_links: bool) -> Iterator[ImagePath]:
    path = Path(source)
    if source == "-":
        yield from (ImagePath(line) for line in _lines(sys.stdin.read()))
    elif path.is_dir():
        yield from _in_folder(path, allow_links)
    elif source.lower().endswith(".csv"):
        yield from _in_manifest(path, allow_links)
    elif source.lower().endswith(_LISTS):
        yield from _in_list(path, allow_links)
    elif glob.has_magic(source) and not os.path.lexists(source):
        matches = sorted(glob.glob(source, recursive=True))  # noqa: PTH207 - keeps `./` and `..`
        images = [match for match in matches if match.lower().endswith(ENDINGS)]
        yield from map(ImagePath, images)
        if not images:
            yield ImagePath(source, "no image matches this pattern")
    else:
        yield ImagePath(source)


def _in_folder(folder: Path, allow_links: bool) -> Iterator[ImagePath]:
    """List the images of a folder and of those below it; what starts with a dot is left out."""
    links = Links(None if allow_links else folder)
    nothing = True
    for place, folders, files in os.walk(folder, followlinks=allow_links):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                nothing = False
                yield _checked(Path(place) / name, links)
    if nothing:
        yield ImagePath(str(folder), f"a folder without images ({', '.join(ENDINGS)})")


def _in_manifest(path: Path, allow_links: bool) -> Iterator[ImagePath]:
    def check_header(header: Sequence[str]) -> None:
        if list(header).count("path") != 1:
            raise DataError(
                f"{path}, line 1: the header {','.join(header)!r} has no column path; name the "
                "column of the images' paths so"
            )

    links = Links(None if allow_links else path.parent)
    for where, row in csv_rows(_text(path, "manifest"), path, DataError, check_header):
        if not row["path"]:
            raise DataError(f"{where}: the path is empty")
        yield _checked(path.parent / row["path"], links)


def _in_list(path: Path, allow_links: bool) -> Iterator[ImagePath]:
    links = Links(None if allow_links else path.parent)
    for line in _lines(_text(path, "list of images")):
        beside = path.parent / line
        here = not os.path.lexists(beside) and os.path.lexists(line)
        yield ImagePath(line) if here else _checked(beside, links)


def _checked(path: Path, links: Links) -> ImagePath:
    out = links.lead_out(path, path.is_symlink())
    return ImagePath(str(path), _LINK if out else "")


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _text(path: Path, kind: str) -> str:
    try:
        return read_text(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such {kind}") from None
    except FedgrainError as error:
        raise DataError(str(error)) from None

"""Where the images of a source lie. It may come from anyone, so it reaches no other folder."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fedgrain.folders.folder import ENDINGS
from fedgrain.folders.links import Links
from fedgrain.importers.contract import ReadImage

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_NOT_THERE = "its image is not there"


def is_address(path: str) -> bool:
    """Whether a path is a web address."""
    return bool(_ADDRESS.match(path))


class ImageFiles:
    """Finds the file of each image, inside the folder of images, or says why there is none."""

    def __init__(self, images: Path | None, *, allow_links: bool) -> None:
        self._given = images
        self._allow_links = allow_links
        self._links: dict[Path, Links] = {}

    def find(self, image: ReadImage) -> tuple[Path, Path] | str:
        """Return the file and the folder of images it lies in, or why the image is left out."""
        root = self._given if self._given is not None else image.base
        places = [image.path, *image.others]
        if is_address(image.path):
            if self._given is None:
                return "its image is a web address: download it and name the folder with --images"
            places = [*_local(image.path), *image.others]
        if not image.path.strip():
            return "it names no image"
        found: tuple[Path, Path] | str = _NOT_THERE
        for place in places:
            found = self._at(place, root)
            if found != _NOT_THERE:
                return found
        return found

    def _at(self, text: str, root: Path) -> tuple[Path, Path] | str:
        if "\\" in text and "/" not in text:
            text = text.replace("\\", "/")
        path = Path(os.path.normpath(root / text))
        if not _inside(path, root):
            return "its image lies outside the folder of images; name another folder with --images"
        return self._checked(path, root)

    def _checked(self, path: Path, root: Path) -> tuple[Path, Path] | str:
        try:
            state = os.lstat(path)
            is_link = stat.S_ISLNK(state.st_mode)
            links = self._links.setdefault(root, Links(None if self._allow_links else root))
            if links.lead_out(path, is_link):
                return "its image is a link out of the folder; --allow-links follows it"
            if is_link:
                state = path.stat()
        except (OSError, ValueError):  # a path with a NUL byte does not exist
            return _NOT_THERE
        if not stat.S_ISREG(state.st_mode):
            return "its image is not a plain file"
        if path.suffix.lower() not in ENDINGS:
            return f"its file is not an image fedgrain reads ({', '.join(ENDINGS)})"
        if not _writable(str(path)):
            return "the name of its file cannot stand in a table: rename it"
        return path, root


def _local(address: str) -> list[str]:
    """Return where a downloaded file may lie: with its host, with its path, or by its name."""
    try:
        parts = urlsplit(address)
    except ValueError:  # such as half an IPv6 address
        return []
    path = unquote(parts.path).strip("/")
    return [f"{parts.netloc}/{path}", path, path.rpartition("/")[2]] if path else []


def _writable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name == name.strip() and name.isprintable()


def _inside(path: Path, root: Path) -> bool:
    inner, outer = os.path.abspath(path), os.path.abspath(root)  # noqa: PTH100 - links stay
    return inner.startswith(outer.rstrip(os.sep) + os.sep)

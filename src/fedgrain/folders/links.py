"""Links that lead out of a folder: a folder from someone else could reach other images by them."""

from __future__ import annotations

import os
from pathlib import Path


class Links:
    """Finds links that lead out of a folder, also through a parent folder; None allows all.

    A path that names another place itself, absolute or with dots, is not such a link.
    """

    def __init__(self, root: Path | None) -> None:
        self._named = None if root is None else os.path.abspath(root)  # noqa: PTH100 - no links
        self._real = None if root is None else os.path.realpath(root)
        self._folders: dict[str, tuple[bool, bool]] = {}  # each folder is resolved once

    def lead_out(self, path: Path, is_link: bool) -> bool:
        """Return whether a path inside the folder ends up outside of it."""
        if self._named is None or self._real is None:
            return False
        folder = os.path.dirname(path)  # noqa: PTH120 - half the time of Path.parent
        if folder not in self._folders:
            named, real = os.path.abspath(folder), os.path.realpath(folder)  # noqa: PTH100
            self._folders[folder] = (_is_in(named, self._named), _is_in(real, self._real))
        named_inside, inside = self._folders[folder]
        if is_link:
            inside = _is_in(os.path.realpath(path), self._real)
        return named_inside and not inside


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)

"""JSON files of ours with a checksum: written whole, checked when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedgrain.checksums import read_checked, warn_unchecked, write_checked
from fedgrain.errors import RunError

AGAIN = "copy the folder again, or run it again in a new one"


def write_checked_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object with its checksum, whole or not at all."""
    write_checked(path, content)


def read_checked_json(path: Path) -> dict[str, Any]:
    """Read an object and check it; one of an older version has no checksum."""
    content, checked = read_checked(path, AGAIN, RunError)
    if not checked:
        warn_unchecked(path)
    return content

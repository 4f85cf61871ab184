"""Nested folders: the path of an image is its label, at any level."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.folders.folder import ENDINGS
from fedgrain.folders.manifest import SPLIT_NAMES
from fedgrain.importers.class_tree import TOP
from fedgrain.importers.contract import Reading, ReadOptions
from fedgrain.text import encodable


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read folders; those called train, validation and test at the top are splits."""
    reading = Reading()
    for source in sources:
        if not source.is_dir():
            raise DataError(f"{source}: a file where a folder of images is wanted")
        tops = [path.name for path in source.iterdir() if path.is_dir() and path.name[0] != "."]
        by_split = bool(tops) and all(name in SPLIT_NAMES for name in tops)
        if by_split:
            reading.note(f"splits by the folders {', '.join(sorted(tops))}")
        _walk(source, by_split, reading)
    return reading


def _walk(source: Path, by_split: bool, reading: Reading) -> None:
    for place, folders, files in os.walk(source, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            if (Path(place) / name).is_symlink():
                reading.skip("a link to a folder is not followed", encodable(f"{place}/{name}"))
        steps = list(Path(place).relative_to(source).parts)
        split = SPLIT_NAMES[steps.pop(0)] if by_split and steps else ""
        where = encodable(place)
        if not all(encodable(step) == step and step.strip() for step in steps):
            reading.skip("the name of its folder cannot be a label: rename it", where, len(files))
            continue
        node = reading.classes.path(steps, where) if steps else TOP
        for name in sorted(files):
            if not name.startswith("."):
                if name.lower().endswith(ENDINGS):
                    path = Path(place).relative_to(source) / name
                    reading.image(str(path), node, where, source, split=split)
                else:
                    reading.skip("not an image", encodable(str(Path(place) / name)))


def _unreadable(error: OSError) -> None:
    """End at a folder that cannot be opened: its images would be missing without a word."""
    raise DataError(f"{encodable(str(error.filename))}: {error.strerror}; no image of it is read")

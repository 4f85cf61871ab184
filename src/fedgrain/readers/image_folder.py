"""Hugging Face's ImageFolder: images with a ``metadata.jsonl`` or ``metadata.csv``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedgrain.errors import DataError
from fedgrain.importers.bounded import json_lines, table_rows
from fedgrain.importers.contract import Reading, ReadOptions, split_in
from fedgrain.readers.metadata_rows import DescribedImage, add_described

_FILES = ("metadata.jsonl", "metadata.csv")
_PATH = "file_name"


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read folders; a metadata file speaks for the images at or below its own folder."""
    images: list[DescribedImage] = []
    names: dict[str, None] = {}
    for source in sources:
        found = list(_metadata(source))
        if not found:
            raise DataError(
                f"{source}: no {' or '.join(_FILES)} in it; if folders are the labels, the format "
                "is folders"
            )
        for path in found:
            split = split_in(" ".join(path.parent.relative_to(source).parts))
            for where, row in _rows(path):
                if not row.get(_PATH):
                    raise DataError(f"{where}: {_PATH!r} is missing or empty")
                names.update(dict.fromkeys(row))
                fields = {name: text for name, text in row.items() if name != _PATH}
                images.append(DescribedImage(row[_PATH], fields, where, path.parent, split))
    columns = [name for name in names if name != _PATH]
    return add_described(images, columns, options, str(sources[0]))


def _metadata(source: Path) -> Iterator[Path]:
    if not source.is_dir():
        raise DataError(f"{source}: a file where the folder of a data set is wanted")
    for place, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place) / name for name in _FILES if name in files)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    if path.suffix == ".csv":
        yield from table_rows(path, lambda header: _check(header, path), ",")
        return
    for where, record in json_lines(path):
        yield where, {name: _text(value) for name, value in record.items()}


def _check(header: Sequence[str], path: Path) -> None:
    if list(header).count(_PATH) != 1 or len(set(header)) < len(header):
        raise DataError(f"{path}, line 1: the header needs {_PATH!r}, and every column once")


def _text(value: Any) -> str:
    """Return what a field says: texts and numbers; lists, boxes and others say nothing here."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value)

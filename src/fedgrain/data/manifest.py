"""The user's manifest: one image per row, with a label at any depth of the user's tree.

``images.csv`` has the header ``path,label`` and optionally ``client``, ``annotator`` and ``split``.
Every mistake is reported with its file and line before any image is touched.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import DataError, FedgrainError
from fedgrain.files import read_text
from fedgrain.parsing import csv_rows
from fedgrain.taxonomy.tree import Taxonomy

_REQUIRED = ("path", "label")
COLUMNS = (*_REQUIRED, "client", "annotator", "split")
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Rows:
    """The rows of a manifest, or of class folders, checked against the tree and the disk."""

    paths: tuple[Path, ...]
    where: tuple[str, ...]  # file and line of each row, for messages
    labels: NDArray[np.int32]  # [rows], nodes of the tree
    splits: tuple[str, ...]
    clients: tuple[str, ...] | None = None  # empty where a row names none
    annotators: tuple[str, ...] | None = None


class Labels:
    """Finds nodes by id or unique name, and suggests similar ones if there is no match."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._taxonomy = taxonomy
        self._by_name: dict[str, list[int]] = {}
        for number, name in enumerate(taxonomy.names):
            self._by_name.setdefault(name, []).append(number)

    def find(self, label: str, where: str) -> int:
        """Return the node of a label; ``where`` starts the error message if there is none."""
        if label in self._taxonomy:
            return self._taxonomy.index(label)
        found = self._by_name.get(label, [])
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(self._taxonomy.ids[node] for node in found)
            raise DataError(
                f"{where}: several nodes are named {label!r}; write one of the ids {ids}"
            )
        known = list(dict.fromkeys((*self._taxonomy.names, *self._taxonomy.ids)))
        near = difflib.get_close_matches(label, known, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise DataError(
            f"{where}: the label {label!r} is not a node of the taxonomy, by id or by name{hint}"
        )


def read_manifest(path: str | Path, taxonomy: Taxonomy) -> Rows:
    """Read and check a manifest; relative paths start at its folder."""
    path = Path(path)
    labels = Labels(taxonomy)
    node_of: dict[str, int] = {}  # a label is looked up once
    line_of: dict[Path, str] = {}
    columns: dict[str, list[str]] = {name: [] for name in COLUMNS}
    nodes: list[int] = []
    present: Sequence[str] = ()
    for where, row in _rows(path):
        present = tuple(row)
        for name in _REQUIRED:
            if not row[name]:
                raise DataError(f"{where}: the {name} is empty; every row needs a path and a label")
        if row["label"] not in node_of:
            node_of[row["label"]] = labels.find(row["label"], where)
        nodes.append(node_of[row["label"]])
        image = path.parent / row["path"]
        if image in line_of:
            raise DataError(f"{where}: {row['path']!r} is also at {line_of[image]}; remove one")
        line_of[image] = where
        _check_split(row.get("split", ""), where)
        for name, value in row.items():
            columns[name].append(value)
    if not nodes:
        raise DataError(f"{path}: the manifest lists no images; write one row per image")
    return Rows(
        paths=tuple(line_of),
        where=tuple(line_of.values()),
        labels=np.array(nodes, np.int32),
        splits=tuple(split or "train" for split in columns["split"] or [""] * len(nodes)),
        clients=tuple(columns["client"]) if "client" in present else None,
        annotators=tuple(columns["annotator"]) if "annotator" in present else None,
    )


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the file and line of each row, and its fields by column."""
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such manifest; see docs/data.md") from None
    except FedgrainError as error:
        raise DataError(str(error)) from None
    advice = "put a field that holds a comma in quotes"
    yield from csv_rows(text, path, DataError, partial(_check_header, path), advice)


def _check_header(path: Path, header: Sequence[str]) -> None:
    missing = [name for name in _REQUIRED if name not in header]
    unknown = [name for name in header if name not in COLUMNS]
    if missing or unknown or len(set(header)) < len(header):
        raise DataError(
            f"{path}, line 1: the header is {','.join(header)!r}; write path,label and optionally "
            "client, annotator and split, each once"
        )


def _check_split(split: str, where: str) -> None:
    if split and split not in SPLITS:
        near = difflib.get_close_matches(split, SPLITS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; write one of {', '.join(SPLITS)}"
        raise DataError(f"{where}: there is no split {split!r}{hint}")

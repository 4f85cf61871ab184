"""The user's manifest: one image per row, with a label at any depth of the user's tree.

``images.csv`` has the header ``path,label`` and optionally ``client``, ``annotator`` and ``split``.
All mistakes are reported at once, each with its file and line, before any image is touched. Case,
spaces and accents are forgiven with a note.
"""

from __future__ import annotations

import difflib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import DataError, FedgrainError
from fedgrain.files import read_text
from fedgrain.folders.labels import Labels, candidates, folded
from fedgrain.folders.mistakes import Mistakes
from fedgrain.parsing import csv_rows
from fedgrain.taxonomy.tree import Taxonomy

_REQUIRED = ("path", "label")
COLUMNS = (*_REQUIRED, "client", "annotator", "split")
# what fedgrain refine and fedgrain review add: where a label came from; a run does not read them
ORIGIN = (
    "given_label",
    "given_annotator",
    "source",
    "proposal",
    "probability",
    "guarantee",
    "gain",
)
SPLITS = ("train", "validation", "test")
SPLIT_NAMES = {**{name: name for name in SPLITS}, "val": "validation"}


@dataclass(frozen=True)
class Rows:
    """The rows of a manifest, or of class folders, checked against the tree and the disk."""

    paths: tuple[Path, ...]
    where: tuple[str, ...]  # file and line of each row, for messages
    labels: NDArray[np.int32]  # [rows], nodes of the tree
    splits: tuple[str, ...]
    clients: tuple[str, ...] | None = None  # empty where a row names none
    annotators: tuple[str, ...] | None = None


def read_manifest(path: str | Path, taxonomy: Taxonomy, mistakes: Mistakes | None = None) -> Rows:
    """Read and check a manifest; relative paths start at its folder.

    Mistakes are raised together, or added to ``mistakes``; then a row with one is in the result if
    it has a path, with the root as its label if that is what is wrong.
    """
    path = Path(path)
    found = Mistakes(path) if mistakes is None else mistakes
    checked = checked_rows(path, list(manifest_rows(path, found)), taxonomy, found)
    if mistakes is None:
        found.refuse()
        tell_forgiven(found)
    return checked


def checked_rows(
    path: Path, rows: Sequence[tuple[str, dict[str, str]]], taxonomy: Taxonomy, found: Mistakes
) -> Rows:
    """Check the rows of a manifest that :func:`manifest_rows` has read, adding mistakes."""
    if not rows and not found.groups:
        raise DataError(f"{path}: the manifest lists no images; write one row per image")
    labels = LabelReader(taxonomy, found)
    spelling = client_spelling([row.get("client", "") for _, row in rows])
    line_of: dict[Path, str] = {}
    nodes: list[int] = []
    columns: dict[str, list[str]] = {name: [] for name in COLUMNS[2:]}
    for where, row in rows:
        node = labels.node(row["label"], where)
        if not row["path"]:
            found.add(where, ("empty", "path"), _empty("path"))
            continue
        image = path.parent / row["path"]
        if image in line_of:
            text = f"{row['path']!r} is also at {line_of[image]}"
            found.add(where, ("twice", row["path"]), text, "; remove one")
            continue
        line_of[image] = where
        nodes.append(0 if node is None else node)
        columns["split"].append(read_split(row.get("split", ""), where, found))
        columns["annotator"].append(row.get("annotator", ""))
        client = row.get("client", "")
        columns["client"].append(spelling.get(client, client))
        if client in spelling:
            found.note(f"the client {client!r} as {spelling[client]!r}")
    present = rows[0][1] if rows else {}
    return Rows(
        paths=tuple(line_of),
        where=tuple(line_of.values()),
        labels=np.array(nodes, np.int32),
        splits=tuple(split or "train" for split in columns["split"]),
        clients=tuple(columns["client"]) if "client" in present else None,
        annotators=tuple(columns["annotator"]) if "annotator" in present else None,
    )


def names_splits(path: str | Path) -> bool:
    """Return whether any row of a manifest names its split; one that does not is for training."""
    path = Path(path)
    return any(row.get("split") for _, row in manifest_rows(path, Mistakes(path)))


def tell_forgiven(found: Mistakes) -> None:
    """Warn once of everything that was forgiven."""
    if text := found.forgiven():
        warnings.warn(text, stacklevel=4)


class LabelReader:
    """Reads labels, each word once; what it does not find is a mistake."""

    def __init__(self, taxonomy: Taxonomy, mistakes: Mistakes) -> None:
        self.labels, self._taxonomy, self._mistakes = Labels(taxonomy), taxonomy, mistakes

    def node(self, label: str, where: str) -> int | None:
        """Return the node of a label, or None; ``where`` is for the message."""
        if not label:
            self._mistakes.add(where, ("empty", "label"), _empty("label"))
            return None
        found = self.labels.find(label)
        if len(found.nodes) == 1:
            if not found.exact:
                self._mistakes.note(f"{label!r} as {self.labels.spelled(found.nodes[0])!r}")
            return found.nodes[0]
        if found.nodes:
            text = f"several nodes are named {label!r}"
            advice = f"; write one of the ids {candidates(self._taxonomy, found.nodes)}"
            self._mistakes.add(where, ("label", label), text, advice)
        else:
            text = f"the label {label!r} is not a node of the taxonomy, by id, name or synonym"
            self._mistakes.add(where, ("label", label), text, partial(self._hint, label))
        return None

    def _hint(self, label: str) -> str:
        near = self.labels.nearest(label)
        return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def manifest_rows(
    path: Path,
    mistakes: Mistakes,
    keep: Callable[[list[str]], None] = lambda fields: None,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the file and line of each row, and its fields by column.

    A row of another length than the header is a mistake; ``keep`` gets its fields.
    """
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such manifest; see docs/data.md") from None
    except FedgrainError as error:
        raise DataError(str(error)) from None

    def wrong_length(place: str, message: str, fields: list[str]) -> None:
        advice = "; put a field that holds a comma in quotes"
        mistakes.add(place, ("length", str(len(fields))), message, advice)
        keep(fields)

    check = partial(_check_header, path, mistakes)
    yield from csv_rows(text, path, DataError, check, wrong_length=wrong_length)


def client_spelling(clients: Sequence[str]) -> dict[str, str]:
    """Return clients that differ from another only in case, each with the most frequent spelling.

    >>> client_spelling(["Kiel", "kiel", "Kiel", "Ulm"])
    {'kiel': 'Kiel'}
    """
    counts = Counter(client for client in clients if client)
    groups: dict[str, list[str]] = {}
    for client, _ in counts.most_common():
        groups.setdefault(folded(client), []).append(client)
    return {other: first for first, *others in groups.values() for other in others}


def read_split(split: str, where: str, mistakes: Mistakes) -> str:
    """Return the split that a word means; one that there is not is a mistake."""
    if not split or split in SPLITS:
        return split
    known = SPLIT_NAMES.get(folded(split))
    if known is None:
        near = difflib.get_close_matches(folded(split), SPLITS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; write one of {', '.join(SPLITS)}"
        mistakes.add(where, ("split", split), f"there is no split {split!r}", hint)
        return ""
    mistakes.note(f"the split {split!r} as {known!r}")
    return known


def _check_header(path: Path, mistakes: Mistakes, header: list[str]) -> None:
    """Correct the case of the header in place, and refuse one that is not a manifest's."""
    known = (*COLUMNS, *ORIGIN)
    for place, name in enumerate(header):
        if name not in known and folded(name) in known:
            header[place] = folded(name)
            mistakes.note(f"the column {name!r} as {header[place]!r}")
    missing = [name for name in _REQUIRED if name not in header]
    unknown = [name for name in header if name not in known]
    if missing or unknown or len(set(header)) < len(header):
        raise DataError(
            f"{path}, line 1: the header is {','.join(header)!r}; write path,label and optionally "
            "client, annotator and split, each once (and what fedgrain refine adds)"
        )


def _empty(name: str) -> str:
    return f"the {name} is empty; every row needs a path and a label"

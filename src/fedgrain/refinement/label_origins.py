"""A manifest whose rows say where their labels came from, so that each can be taken back.

``given_label`` and ``given_annotator`` are what the row said first; ``source`` is *given*, *model*
or *review*. The other columns are what the model proposed: ``proposal``, its ``probability`` and
``guarantee``, and ``gain``, how useful a review would be.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedgrain.errors import DataError
from fedgrain.files import write_text
from fedgrain.folders.folder import ListedImages
from fedgrain.folders.manifest import (
    COLUMNS,
    ORIGIN,
    Rows,
    checked_rows,
    manifest_rows,
    tell_forgiven,
)
from fedgrain.folders.mistakes import Mistakes
from fedgrain.images.cache import Stored
from fedgrain.images.images import LabelledImages
from fedgrain.taxonomy.tree import Taxonomy

GIVEN, MODEL, REVIEW = "given", "model", "review"  # the sources of a label
_SOURCES = (GIVEN, MODEL, REVIEW)
Row = dict[str, str]


@dataclass(frozen=True)
class OriginRows:
    """The rows of a manifest as they are written, and checked against the tree."""

    path: Path
    rows: tuple[Row, ...]
    checked: Rows  # of the same rows, in the same order

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.rows)


def read_origins(path: str | Path, taxonomy: Taxonomy, *, before_model: bool = False) -> OriginRows:
    """Read a manifest with or without origins; all mistakes are raised together.

    With ``before_model``, labels that a model wrote are taken back first.
    """
    path = Path(path)
    mistakes = Mistakes(path)
    listed = list(manifest_rows(path, mistakes))
    for where, row in listed:
        source = row.get("source", "")
        if source and source not in _SOURCES:
            text = f"there is no source {source!r}"
            advice = f"; write one of {', '.join(_SOURCES)}, or remove the column"
            mistakes.add(where, ("source", source), text, advice)
    rows = [_with_origin(row) for _, row in listed]
    if before_model:
        rows = [_taken_back(row) if row["source"] == MODEL else row for row in rows]
    places = [where for where, _ in listed]
    checked = checked_rows(path, list(zip(places, rows, strict=True)), taxonomy, mistakes)
    mistakes.refuse()
    tell_forgiven(mistakes)
    return OriginRows(path, tuple(rows), checked)


def write_origins(out: str | Path, rows: Iterable[Mapping[str, str]], start: Path) -> None:
    """Write a manifest whole; ``start`` is the folder where relative paths of its rows begin."""
    _write(Path(out), list(rows), start, (*COLUMNS, *ORIGIN))


def undo(path: str | Path, out: str | Path) -> tuple[int, int]:
    """Write the manifest as it was given; return the number of rows, and of labels taken back."""
    path, out = Path(path), Path(out)
    refuse_same(path, out)
    mistakes = Mistakes(path)
    rows = [_with_origin(row) for _, row in manifest_rows(path, mistakes)]
    mistakes.refuse()
    changed = sum(row["source"] != GIVEN for row in rows)
    _write(out, [_taken_back(row) for row in rows], path.parent, COLUMNS)
    return len(rows), changed


def refuse_same(path: Path, out: Path) -> None:
    """Refuse to write over the manifest that is read."""
    if out.exists() and path.exists() and out.samefile(path):
        raise DataError(f"{out}: the manifest itself, which is never changed; name another file")


def without_pixels(origins: OriginRows, taxonomy: Taxonomy) -> LabelledImages:
    """Return the rows as a data set whose images are not loaded, for what needs only labels."""
    nothing = np.broadcast_to(np.zeros(3, np.uint8), (origins.count, 1, 1, 3))
    numbers = np.arange(origins.count, dtype=np.int32)
    stored = Stored(nothing, numbers, np.zeros(len(numbers), np.int8), {})
    return ListedImages(origins.path.stem, origins.checked, stored, taxonomy).labelled()


def _with_origin(row: Row) -> Row:
    """Return a row with every column; one without origins was given as it is."""
    full = {"annotator": "", **row}
    if not row.get("source"):
        full.update(given_label=row["label"], given_annotator=row.get("annotator", ""))
        full["source"] = GIVEN
    return {**dict.fromkeys(ORIGIN, ""), **full}


def _taken_back(row: Row) -> Row:
    given = {"label": row["given_label"], "annotator": row["given_annotator"], "source": GIVEN}
    return {**row, **given}


def _write(out: Path, rows: list[Mapping[str, str]], start: Path, columns: Sequence[str]) -> None:
    used = [name for name in columns if name in ORIGIN or any(row.get(name) for row in rows)]
    moved = out.parent.resolve() != start.resolve()
    into = io.StringIO()
    writer = csv.writer(into, lineterminator="\n")
    writer.writerow(used)
    for row in rows:
        fields = dict(row)
        if moved and not Path(row["path"]).is_absolute():
            image = (start / row["path"]).absolute()
            fields["path"] = os.path.relpath(image, out.parent.absolute())
        writer.writerow([fields.get(name, "") for name in used])
    write_text(out, into.getvalue())

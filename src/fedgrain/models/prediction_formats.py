"""Predictions of files as text, CSV, JSON Lines and one JSON object.

A format turns rows into pieces of text, one after the other, so that long lists need no memory.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fedgrain.models.predict_files import PredictedFile
from fedgrain.text import encodable, one_line

Format = Callable[[Iterable[PredictedFile]], Iterator[str]]
NOT_HERE = "not in this taxonomy"
_LONGEST_PATH = 1000  # characters of a path that is printed
COLUMNS = ("image", "label", "name", "probability", "path", "path_probabilities", "problem")


def as_text(rows: Iterable[PredictedFile]) -> Iterator[str]:
    """Yield a line per file: the classes on the way down, each with its probability."""
    for row in rows:
        yield f"{one_line(row.image, _LONGEST_PATH)}: {_spoken(row)}\n"


def _spoken(row: PredictedFile) -> str:
    if row.prediction is None:
        return f"not read: {one_line(row.problem)}"
    if row.prediction.strange:
        return NOT_HERE
    if row.prediction.members:
        among = (f"{one_line(name)} {chance:.2f}" for _, name, chance in row.prediction.members)
        return f"one of {', '.join(among)}"
    names = [one_line(name) for name in row.prediction.names]
    levels = zip(names[1:], row.prediction.probabilities[1:], strict=True)
    return " > ".join(f"{name} {probability:.2f}" for name, probability in levels) or names[0]


def as_csv(rows: Iterable[PredictedFile]) -> Iterator[str]:
    """Yield a table with the :data:`COLUMNS`; classes of the path are joined by `` > ``."""
    into = io.StringIO()
    writer = csv.writer(into, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(map(encodable, _cells(row)))
        yield into.getvalue()
        into.seek(0)
        into.truncate()
    yield into.getvalue()


def _cells(row: PredictedFile) -> list[str]:
    if row.prediction is None:
        return [row.image, "", "", "", "", "", row.problem]
    found = row.prediction
    if found.strange:
        return [row.image, "", NOT_HERE, "", "", "", ""]
    chances = [f"{probability:.6g}" for probability in found.probabilities]
    path = " > ".join(found.names), " > ".join(chances)
    if found.members:
        ids, names, shares = zip(*found.members, strict=True)
        return [row.image, " | ".join(ids), " | ".join(names), f"{sum(shares):.6g}", *path, ""]
    return [row.image, found.ids[-1], found.names[-1], chances[-1], *path, ""]


def as_json_lines(rows: Iterable[PredictedFile]) -> Iterator[str]:
    """Yield a JSON object per line and file."""
    for row in rows:
        yield encodable(json.dumps(_entry(row), ensure_ascii=False)) + "\n"


def as_json(rows: Iterable[PredictedFile]) -> Iterator[str]:
    """Yield one JSON object with a list of predictions."""
    before = '{"predictions": [\n'
    for row in rows:
        yield before + encodable(json.dumps(_entry(row), ensure_ascii=False))
        before = ",\n"
    yield "\n]}\n" if before == ",\n" else before + "]}\n"


def _entry(row: PredictedFile) -> dict[str, Any]:
    if row.prediction is None:
        return {"image": row.image, "path": [], "problem": row.problem}
    found = row.prediction
    levels = zip(found.ids, found.names, found.probabilities, strict=True)
    path = [{"id": i, "name": name, "probability": chance} for i, name, chance in levels]
    entry: dict[str, Any] = {"image": row.image, "path": path, "problem": None}
    if found.members:
        entry["set"] = [{"id": i, "name": n, "probability": p} for i, n, p in found.members]
    if found.strange:
        entry["strange"] = True
    if found.strangeness is not None:
        entry["strangeness"] = found.strangeness
    return entry


FORMATS: dict[str, Format] = {
    "text": as_text,
    "csv": as_csv,
    "jsonl": as_json_lines,
    "json": as_json,
}

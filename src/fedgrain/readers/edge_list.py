"""Edges of a tree, ``parent,child``, with a header or without (as hiercls writes them)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.importers.bounded import text_of
from fedgrain.importers.contract import Reading, ReadOptions
from fedgrain.taxonomy.formats import read_csv


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read edges; ids stay as they are, so a class has one parent."""
    reading = Reading()
    edges: dict[str, tuple[str, str]] = {}  # child: parent and place
    parents: dict[str, str] = {}  # in the order they come, with their place
    for source in sources:
        text = text_of(source)
        if text.split("\n", 1)[0].replace(" ", "").startswith("parent,child"):
            _read_own(source, reading)
            continue
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        try:
            for record in reader:
                where = f"{source}, line {reader.line_num}"
                _add([field.strip() for field in record], where, edges, parents)
        except csv.Error as error:
            raise DataError(f"{source}, line {reader.line_num}: not a CSV file: {error}") from None
    for parent, where in parents.items():
        if parent not in edges:
            reading.classes.add(parent, "", parent, where, keep_id=True)
    for child, (parent, where) in edges.items():
        reading.classes.add(child, parent, child, where, keep_id=True)
    return reading


def _add(
    fields: list[str], where: str, edges: dict[str, tuple[str, str]], parents: dict[str, str]
) -> None:
    if not any(fields):
        return
    if len(fields) != 2 or not all(fields):
        raise DataError(
            f"{where}: {len([field for field in fields if field])} names where an edge has two; "
            "write parent,child"
        )
    parent, child = (" ".join(field.split()) for field in fields)
    other, first = edges.get(child, (parent, ""))
    if other != parent:
        raise DataError(
            f"{where}: {child!r} is under {parent!r}, but at {first} under {other!r}; keep one"
        )
    edges.setdefault(child, (parent, where))
    parents.setdefault(parent, where)


def _read_own(source: Path, reading: Reading) -> None:
    """Read a tree that fedgrain wrote, with its names and synonyms."""
    tree = read_csv(source)
    for node, node_id in enumerate(tree.ids):
        parent = tree.ids[tree.parents[node]] if node else ""
        name, where = tree.names[node], f"{source}, class {node_id!r}"
        number = reading.classes.add(node_id, parent, name, where, keep_id=True)
        reading.classes.synonyms(number, *tree.synonyms.get(node_id, ()))

"""Paths of classes: ``a/b/c`` or ``a > b > c``, as lines of text or in a column of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.importers.bounded import table_rows, text_of
from fedgrain.importers.columns import find_columns
from fedgrain.importers.contract import Reading, ReadOptions, split_named

SEPARATORS = (">", "/", "|", ";")  # the first that some path has
_NUMBERED = re.compile(r"\d+ - ")  # Google's taxonomy with ids
_TABLES = (".csv", ".tsv", ".tab")
_WANTED = ("image", "label", "site", "annotator", "split")


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read lines (``.txt`` and others) and tables (``.csv``, ``.tsv``) of paths."""
    reading = Reading()
    for source in sources:
        if source.suffix.lower() in _TABLES:
            _read_table(source, options, reading)
        else:
            _read_lines(source, reading)
    return reading


def _read_lines(source: Path, reading: Reading) -> None:
    lines = [
        (number, line.strip())
        for number, line in enumerate(text_of(source).split("\n"), start=1)
        if line.strip() and not line.startswith("#")
    ]
    numbered = all(_NUMBERED.match(line) for _, line in lines)
    separator = separator_of([line for _, line in lines])
    for number, line in lines:
        path = _NUMBERED.sub("", line, count=1) if numbered else line
        where = f"{source}, line {number}"
        reading.classes.path(steps(path, separator, where), where)
    if not lines:
        raise DataError(f"{source}: the file has no paths; write one per line, such as a/b/c")


def _read_table(source: Path, options: ReadOptions, reading: Reading) -> None:
    columns: dict[str, str] = {}

    def check(header: list[str]) -> None:
        columns.update(find_columns(header, _WANTED, options.columns, f"{source}, line 1"))
        if "label" not in columns:
            raise DataError(
                f"{source}, line 1: no column of paths among {', '.join(header)}; name it with "
                "--column label=NAME"
            )

    rows = list(table_rows(source, check))
    separator = separator_of([row[columns["label"]] for _, row in rows])
    for where, row in rows:
        fields = {what: row[column] for what, column in columns.items()}
        if not fields["label"]:
            reading.skip("it has no label", where)
            continue
        node = reading.classes.path(steps(fields["label"], separator, where), where)
        if fields.get("image"):
            reading.image(
                fields["image"], node, where, source.parent,
                site=fields.get("site", ""), annotator=fields.get("annotator", ""),
                split=split_named(fields.get("split", ""), where),
            )  # fmt: skip


def separator_of(paths: Sequence[str]) -> str:
    """Return what separates the steps of paths."""
    return next((sign for sign in SEPARATORS if any(sign in path for path in paths)), "/")


def steps(path: str, separator: str, where: str) -> list[str]:
    """Return the classes of a path; one separator at either end does not count."""
    bare = path.strip().removeprefix(separator).removesuffix(separator)
    found = [step.strip() for step in bare.split(separator)]
    if not all(found):
        raise DataError(
            f"{where}: a step of the path {path!r} is empty; write its class between the "
            f"{separator!r}"
        )
    return found

"""Read text, JSON and tables of unknown origin: bounded, and with the place of every problem."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedgrain.errors import DataError, FedgrainError
from fedgrain.files import read_text
from fedgrain.parsing import csv_rows, parse_json

MAX_BYTES = 2**30  # of a file of text; parsed JSON takes several times as much memory
MAX_COLUMNS = 2_000
_DELIMITERS = (",", ";", "\t", "|")


def text_of(path: Path) -> str:
    """Return the text of a file that is there, not too large, and UTF-8."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(
                f"{path}: {size / 2**30:.1f} GiB, and 1 GiB is the most that is read; split it"
            )
        return read_text(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except FedgrainError as error:
        raise DataError(str(error)) from None


def json_of(path: Path) -> Any:
    """Return the content of a JSON file."""
    return parse_json(text_of(path), path, DataError)


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the object of every line of a JSON Lines file."""
    for number, line in enumerate(text_of(path).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                content = parse_json(line, where, DataError)
            except DataError as error:  # the line of its own text is always the first
                raise DataError(str(error).replace(f"{where}, line 1:", f"{where}:")) from None
            yield where, an_object(content, where)


def an_object(value: Any, where: str) -> dict[str, Any]:
    """Return a JSON object; refuse anything else."""
    if not isinstance(value, dict):
        raise DataError(f"{where}: {_kind(value)} where an object is wanted")
    return value


def a_list(record: dict[str, Any], key: str, where: str, *, needed: bool = True) -> list[Any]:
    """Return a list in an object; if it is not needed, an absent one is empty."""
    value = record.get(key)
    if value is None and not needed:
        return []
    if not isinstance(value, list):
        raise DataError(f"{where}: {key!r} is {_kind(value)} where a list is wanted")
    return value


def a_text(record: dict[str, Any], key: str, where: str, *, needed: bool = False) -> str:
    """Return a text in an object; a number counts as text, an absent one as empty."""
    value = record.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or (needed and not value.strip()):
        raise DataError(f"{where}: {key!r} is {_kind(value)} where a text is wanted")
    return value


def table_rows(
    path: Path, check_header: Callable[[list[str]], None], delimiter: str = ""
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place and the fields of every row of a table.

    The delimiter is the one that the header has most of: comma, semicolon, tab or bar. With tabs
    a quote is a sign like others, as GBIF writes it; a pair around a whole field is dropped.
    """
    text = text_of(path)
    first = text.partition("\n")[0]
    if not text.strip():
        raise DataError(f"{path}: the file is empty; write a header and a row per record")
    chosen = delimiter or max(_DELIMITERS, key=first.count)

    def check(header: list[str]) -> None:
        if len(header) > MAX_COLUMNS:
            raise DataError(
                f"{path}, line 1: {len(header):,} columns, and {MAX_COLUMNS:,} are the most; is it "
                "a table?"
            )
        check_header(header)

    rows = csv_rows(text, path, DataError, check, delimiter=chosen)
    for where, row in rows:
        yield where, {name: _bare(field) for name, field in row.items()} if chosen == "\t" else row


def _bare(field: str) -> str:
    whole = len(field) > 1 and field[0] == field[-1] == '"'
    return field[1:-1].replace('""', '"').strip() if whole else field


def _kind(value: Any) -> str:
    if value is None:
        return "missing"
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) < 40 else f"{shown[:39]}…"

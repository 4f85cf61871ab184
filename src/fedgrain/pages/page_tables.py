"""Tables as the page shows them: an entry is a text and a key to sort by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fedgrain.tables.study_tables import Table
from fedgrain.tables.table_formats import spoken

NOTHING = "–"
_PAGE = 40  # rows of a searchable table that need no search


@dataclass(frozen=True)
class Entry:
    """One cell: its text, its sort key, and whether it is the best or second best."""

    text: str
    key: float | str | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Sheet:
    """A table of the page; columns are (group, name)."""

    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Entry, ...], ...]
    note: str = ""
    searchable: bool = False  # a long one is shown a page at a time, with a field to search

    @property
    def paged(self) -> bool:
        """Whether the page's script shows some rows at a time."""
        return self.searchable and len(self.rows) > _PAGE

    @property
    def data(self) -> list[list[Any]]:
        """The rows as the page's script reads them: a text, or a text and its sort key."""
        return [[e.text if e.key == e.text else [e.text, e.key] for e in row] for row in self.rows]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Headings over the columns with how many they span; none where no column has one."""
        if not any(group for group, _ in self.columns):
            return []
        return [(g, len(list(m))) for g, m in groupby(self.columns, key=lambda column: column[0])]

    @property
    def ranked(self) -> bool:
        """Whether an entry is marked as best."""
        return any(entry.rank for row in self.rows for entry in row)


def sheet_of(table: Table) -> Sheet:
    """Return a study's table; it is sorted by means."""
    rows = []
    for name, cells in table.rows:
        entries = [Entry(name, name)]
        for cell, column in zip(cells, table.columns, strict=True):
            key, rank = (None, None) if cell is None else (cell.mean, cell.rank)
            entries.append(Entry(NOTHING if cell is None else spoken(cell, column), key, rank))
        rows.append(tuple(entries))
    columns = (("", table.corner), *((column.group, column.name) for column in table.columns))
    return Sheet(table.title, columns, tuple(rows))


def sheet(
    title: str,
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    note: str = "",
    searchable: bool = False,
) -> Sheet:
    """Return a table of plain values."""
    columns = tuple(("", name) for name in names)
    entries = tuple(tuple(map(entry, row)) for row in rows)
    return Sheet(title, columns, entries, note, searchable)


def entry(value: Any) -> Entry:
    """Return a value as people read it.

    >>> entry(0.12345), entry(3), entry(None)
    (Entry(text='0.123', key=0.12345, rank=None), Entry(text='3', key=3, rank=None), \
Entry(text='–', key=None, rank=None))
    """
    if isinstance(value, Entry):
        return value
    if value is None or value != value:  # NaN is shown as missing
        return Entry(NOTHING)
    if isinstance(value, bool):
        return Entry("yes" if value else "no", str(value))
    if isinstance(value, float):
        return Entry(f"{value:.3f}", value)
    if isinstance(value, int):
        return Entry(str(value), value)
    return Entry(str(value), str(value))


def setting(value: Any) -> Entry:
    """Return a setting exactly as it is: rounding 0.0001 to three digits would hide it."""
    return Entry(f"{value:g}", value) if isinstance(value, float) else entry(value)


def percent(share: float | None) -> Entry:
    """Return a share as a whole percentage."""
    if share is None or share != share:
        return Entry(NOTHING)
    return Entry(f"{100 * share:.0f}%", share)

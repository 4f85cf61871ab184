"""The leaderboard of the benchmark as a page that opens from disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedgrain.files import write_text
from fedgrain.pages.page_parts import Page
from fedgrain.pages.page_tables import sheet_of
from fedgrain.report.html import render
from fedgrain.tables.study_tables import Table

_NOTE = (
    "Mean and 95% interval over seeds; the difference from the best method over the same seeds, "
    "with its interval and the p-value of a paired t-test, which allows neither for the number of "
    "comparisons nor for the best having been found in the same figures; core-hours of the rounds "
    "and megabytes of weights sent, per seed. Bounds do not compete."
)


def write_leaderboard(tables: Sequence[Table], path: Path) -> None:
    """Write the tables of a leaderboard as one page."""
    best = "; ".join(f"{table.title}: {_best(table)} is first" for table in tables)
    page = Page(
        title="Leaderboard",
        kind="benchmark",
        sentence=f"{best}.",
        sheets=tuple(map(sheet_of, tables)),
        blocks=(),
        close=None,
        settings=(),
        redo=(("check a result", "fedgrain benchmark check FILE.zip"),),
        source="",
        source_name="",
        environment={},
        notes=(_NOTE,),
    )
    write_text(path, render(page))


def _best(table: Table) -> str:
    """Return the method all others are compared with: the best that competes."""
    gap = next(n for n, column in enumerate(table.columns) if column.signed)
    return next(name for name, cells in table.rows if cells[gap] is None)

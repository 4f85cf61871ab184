"""Tables as text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from fedgrain.tables.study_tables import Cell, Column, Table

Mark = Callable[[str, int | None], str]


def format_tables(tables: Sequence[Table], form: str) -> str:
    """Return the tables in one of the formats, ending with a line break."""
    if form == "json":
        return json.dumps({"tables": [_plain(t) for t in tables]}, indent=2) + "\n"
    if form == "csv":
        return _csv(tables)
    make = {"text": _text, "markdown": _markdown, "latex": _latex}[form]
    return "\n".join(make(table) for table in tables)


def spoken(cell: Cell | None, column: Column, plus_minus: str = "±") -> str:
    """Return an entry: mean and interval, or the values of too few seeds."""
    if cell is None:
        return "-"
    sign = "+" if column.signed else ""

    def number(value: float, shown: str = sign) -> str:
        scaled = 100 * value if column.percent else value
        return f"{scaled:{shown}.{column.digits}f}" + ("%" if column.percent else "")

    if cell.interval is not None:
        return f"{number(cell.mean)} {plus_minus} {number(cell.interval, '')}"
    return ", ".join(map(number, cell.values or (cell.mean,)))


def _text(table: Table) -> str:
    """Columns under their groups; *best*, _second_."""
    marks = {1: "*{}*", 2: "_{}_", None: "{}"}
    body = [
        [
            name,
            *(
                marks[c.rank if c else None].format(spoken(c, col))
                for c, col in _pairs(cells, table)
            ),
        ]
        for name, cells in table.rows
    ]
    names = [table.corner, *(column.name for column in table.columns)]
    widths = [max(len(row[i]) for row in [names, *body]) for i in range(len(names))]
    groups, at = [" " * widths[0]], 1
    for group, members in groupby(table.columns, key=lambda column: column.group):
        span = widths[at : at + len(list(members))]
        groups.append(group.ljust(sum(span) + 2 * (len(span) - 1)))
        at += len(span)
    lines = [table.title, ""]
    lines += ["  ".join(groups)] if any(column.group for column in table.columns) else []
    for row in [names, *body]:
        first, *rest = [entry.ljust(width) for entry, width in zip(row, widths, strict=True)]
        lines.append("  ".join([first, *rest]))
    if any(cell and cell.rank for _, cells in table.rows for cell in cells):
        lines += ["", "*best*, _second_; mean ± 95% interval over seeds"]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _markdown(table: Table) -> str:
    marks = {1: "**{}**", 2: "<u>{}</u>", None: "{}"}
    heads = [f"{c.group} {c.name}".strip() for c in table.columns]
    lines = [f"### {table.title}", "", f"| {table.corner} | {' | '.join(heads)} |"]
    lines.append("|---" * (len(heads) + 1) + "|")
    for name, cells in table.rows:
        entries = [
            marks[c.rank if c else None].format(spoken(c, col)) for c, col in _pairs(cells, table)
        ]
        lines.append(f"| {name} | {' | '.join(entries)} |")
    return "\n".join(lines) + "\n"


def _latex(table: Table) -> str:
    """For booktabs, in the layout of the paper."""
    marks = {1: r"\textbf{{{}}}", 2: r"\underline{{{}}}", None: "{}"}
    grouped = [(g, len(list(m))) for g, m in groupby(table.columns, key=lambda c: c.group)]
    layout = "l" + "".join("|" + "c" * count for _, count in grouped)
    lines = [f"% {table.title}", rf"\begin{{tabular}}{{{layout}}}", r"\toprule"]
    if any(group for group, _ in grouped):
        heads = [rf"\multicolumn{{{n}}}{{c}}{{{_escaped(g)}}}" for g, n in grouped]
        lines += [" & " + " & ".join(heads) + r" \\", r"\midrule"]
    names = " & ".join(_escaped(column.name) for column in table.columns)
    lines += [rf"{_escaped(table.corner)} & {names} \\", r"\midrule"]
    for name, cells in table.rows:
        entries = [
            marks[c.rank if c else None].format(_escaped(spoken(c, col, "±")))
            for c, col in _pairs(cells, table)
        ]
        lines.append(rf"{_escaped(name)} & {' & '.join(entries)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _escaped(text: str) -> str:
    text = text.replace("alpha ", "\\(\\alpha\\) = ").replace("±", r"\(\pm\)")
    return text.replace("%", r"\%").replace("_", r"\_").replace("&", r"\&").replace("#", r"\#")


COLUMNS = ("table", "row", "group", "column", "mean", "interval95", "rank", "values")


def _csv(tables: Sequence[Table]) -> str:
    """One line per entry, with full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for table in tables:
        for entry in _plain(table)["entries"]:
            values = " ".join(map(repr, entry["values"]))
            rest = ["" if entry[name] is None else entry[name] for name in COLUMNS[1:-1]]
            writer.writerow([table.title, *rest, values])
    return out.getvalue()


def _plain(table: Table) -> dict[str, Any]:
    entries = [
        {
            "row": name,
            "group": column.group,
            "column": column.name,
            "mean": cell.mean,
            "interval95": cell.interval,
            "rank": cell.rank,
            "values": list(cell.values),
        }
        for name, cells in table.rows
        for cell, column in _pairs(cells, table)
        if cell is not None
    ]
    return {"title": table.title, "entries": entries}


def _pairs(cells: Sequence[Cell | None], table: Table) -> list[tuple[Cell | None, Column]]:
    return list(zip(cells, table.columns, strict=True))

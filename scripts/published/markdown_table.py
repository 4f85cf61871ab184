"""A table of a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def markdown(names: list[str], rows: list[list[str]]) -> str:
    """Return a table."""
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def out_of_date(tables: Mapping[Path, str]) -> int:
    """Say which files do not hold their table; return the exit code."""
    old = [
        path for path, text in tables.items()
        if not path.exists() or path.read_text("utf-8") != text
    ]  # fmt: skip
    print(f"out of date: {', '.join(map(str, old))}" if old else "all tables are up to date")
    return 1 if old else 0

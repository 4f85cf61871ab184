"""A tree as indented text: a class per line, deeper classes further to the right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.importers.bounded import text_of
from fedgrain.importers.class_tree import TOP
from fedgrain.importers.contract import Reading, ReadOptions


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read lines indented by spaces or tabs; ``- `` and ``* `` before a name do not count."""
    reading = Reading()
    for source in sources:
        above: list[tuple[str, int]] = []  # indentation and class of the lines this one is below
        for number, line in enumerate(text_of(source).split("\n"), start=1):
            name = line.strip()
            if not name or name.startswith("#"):
                continue
            where = f"{source}, line {number}"
            indent = line[: len(line) - len(line.lstrip())]
            _climb(above, indent, where)
            bare = name[2:] if name.startswith(("- ", "* ")) else name
            node = reading.classes.path([bare], where, under=above[-1][1] if above else TOP)
            above.append((indent, node))
        if not len(reading.classes):
            raise DataError(f"{source}: the file has no classes; write one per line")
    return reading


def _climb(above: list[tuple[str, int]], indent: str, where: str) -> None:
    """Drop the lines that a line is not below; refuse one that is below none and beside none."""
    beside = None
    while above and len(above[-1][0]) >= len(indent):
        beside = above.pop()[0]
    if above and not indent.startswith(above[-1][0]):
        raise DataError(f"{where}: mixes tabs and spaces, so its depth is not clear; use one")
    if beside is not None and beside != indent:
        raise DataError(
            f"{where}: its indentation is that of no line above; indent it as far as its siblings"
        )

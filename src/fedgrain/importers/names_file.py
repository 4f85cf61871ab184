"""A site's own words and the nodes they mean: a CSV file that people fill in.

The columns are ``word`` and ``node`` (an id, a name or a synonym; ``-`` leaves its images out), and
further ones for the reader's eye: how many images have the word, and the nearest nodes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.files import write_text
from fedgrain.folders.labels import Labels, candidates, folded
from fedgrain.importers.bounded import table_rows
from fedgrain.taxonomy.tree import Taxonomy

LEAVE_OUT = "-"
_COLUMNS = ("word", "node", "images", "nearest")


@dataclass
class UnknownWord:
    """A word that no node has, or several have."""

    images: int = 0
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Names:
    """What the user says that words mean; an empty node is not filled in yet."""

    path: Path | None = None
    nodes: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)  # word, node, place

    def meaning(self, word: str, labels: Labels, tree: Taxonomy) -> int | str | None:
        """Return the node of a word: None if the file does not say, ``-`` to leave it out."""
        _, node, where = self.nodes.get(folded(word), ("", "", ""))
        if not node or node == LEAVE_OUT:
            return node or None
        found = labels.find(node).nodes
        if len(found) == 1:
            return found[0]
        if found:
            raise DataError(
                f"{where}: several nodes are named {node!r}; write one of the ids "
                f"{candidates(tree, found)}"
            )
        near = labels.nearest(node)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise DataError(f"{where}: {node!r} is not a node of the taxonomy{hint}")


def read_names(path: Path) -> Names:
    """Read the words of a site; a word twice with different nodes is an error."""

    def check(header: list[str]) -> None:
        if header[:2] != ["word", "node"]:
            raise DataError(f"{path}, line 1: the header is {','.join(header)!r}; write word,node")

    nodes: dict[str, tuple[str, str, str]] = {}
    for where, row in table_rows(path, check):
        word, node = row["word"], row["node"]
        if not word:
            raise DataError(f"{where}: the word is empty")
        _, other, first = nodes.get(folded(word), ("", "", ""))
        if other and node and other != node:
            raise DataError(f"{where}: {word!r} is {other!r} at {first}; keep one")
        nodes[folded(word)] = (word, other or node, first or where)
    return Names(path, nodes)


def write_unknown(path: Path, names: Names, unknown: Mapping[str, UnknownWord]) -> None:
    """Write the words to fill in, after those that are already filled in."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for word, node, _ in names.nodes.values():
        if node:
            writer.writerow((word, node, "", ""))
    for word, found in sorted(unknown.items(), key=lambda item: (-item[1].images, item[0])):
        writer.writerow((word, "", found.images, " | ".join(found.nearest)))
    write_text(path, out.getvalue())

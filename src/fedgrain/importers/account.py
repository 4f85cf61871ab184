"""The account of an import: what was read, what was left out, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedgrain.importers.contract import ReadImage, Reading
from fedgrain.importers.names_file import UnknownWord
from fedgrain.taxonomy.tree import Taxonomy
from fedgrain.text import counted, one_line

_MOST = 20  # reasons, notes and words that the text lists


@dataclass(frozen=True)
class Row:
    """An image of the new folder."""

    image: ReadImage
    node: int
    file: Path
    root: Path  # the folder of images it lies in


@dataclass
class Account:
    """What an import did; :meth:`lines` tells it."""

    format: str
    sources: tuple[str, ...]
    reading: Reading
    taxonomy: Taxonomy | None = None
    rows: list[Row] = field(default_factory=list)
    unknown: dict[str, UnknownWord] = field(default_factory=dict)
    words_file: Path | None = None  # to fill in; nothing else was written

    def label_counts(self) -> dict[str, int]:
        """Return the images of each label, by the id of its node."""
        if self.taxonomy is None:
            return {}
        nodes = Counter(row.node for row in self.rows)
        return {self.taxonomy.ids[node]: nodes[node] for node in sorted(nodes)}

    def why_skipped(self) -> str:
        """Return the reasons for which images were left out, the most frequent first."""
        reasons = sorted(self.reading.skipped.items(), key=lambda item: -item[1].count)
        shown = [
            f"{reason} ({found.count:,}: {found.where[0]})" for reason, found in reasons[:_MOST]
        ]
        return "; ".join(shown) or "none has a label"

    def as_json(self) -> dict[str, Any]:
        """Return the account as a JSON object."""
        tree = self.taxonomy
        return {
            "format": self.format,
            "sources": list(self.sources),
            "classes": 0 if tree is None else len(tree),
            "leaves": 0 if tree is None else len(tree.leaves),
            "images_read": len(self.reading.images),
            "images": len(self.rows),
            "labels": self.label_counts(),
            "sites": self._counts("site"),
            "annotators": self._counts("annotator"),
            "splits": self._counts("split"),
            "skipped": {
                reason: {"count": found.count, "first": found.where}
                for reason, found in self.reading.skipped.items()
            },
            "notes": list(self.reading.notes),
            "unknown_words": {
                word: {"images": found.images, "nearest": list(found.nearest)}
                for word, found in self.unknown.items()
            },
            "words_file": None if self.words_file is None else str(self.words_file),
        }

    def lines(self) -> list[str]:
        """Return the account as lines of text."""
        told = [f"{self.format}: {', '.join(self.sources)}"]
        if self.taxonomy is not None:
            tree = self.taxonomy
            told.append(
                f"{counted(len(tree), 'class', 'classes')}, {len(tree.leaves):,} of them leaves, "
                f"depth {int(tree.depth.max())}, under {tree.names[0]}"
            )
            out = sum(found.count for found in self.reading.skipped.values())
            told.append(f"{counted(len(self.rows), 'image')}, {counted(out, 'record')} left out")
            depths = Counter(int(tree.depth[row.node]) for row in self.rows)
            told += [f"  labels at depth {depth}{depths[depth]:>9,}" for depth in sorted(depths)]
            told += [line for what in ("site", "annotator", "split") if (line := self._line(what))]
        for word, found in list(self.unknown.items())[:_MOST]:
            near = f"; perhaps {', '.join(found.nearest)}" if found.nearest else ""
            told.append(f"unknown word {word!r} ({counted(found.images, 'image')}{near})")
        skipped = sorted(self.reading.skipped.items(), key=lambda item: -item[1].count)
        for reason, left in skipped[:_MOST]:
            told.append(f"left out {left.count:,}: {reason} ({'; '.join(left.where)})")
        told += [f"note: {note}" for note in list(self.reading.notes)[:_MOST]]
        hidden = sum(
            max(0, len(found) - _MOST) for found in (self.unknown, skipped, self.reading.notes)
        )
        if hidden:
            told.append(f"and {hidden:,} more (--json lists all)")
        return [one_line(line, 1000) for line in told]

    def _line(self, what: str) -> str:
        counts = self._counts(what)
        shown = [f"{name} {count:,}" for name, count in list(counts.items())[:10]]
        more = ", ..." if len(counts) > 10 else ""
        return f"{counted(len(counts), what)}: {', '.join(shown)}{more}" if counts else ""

    def _counts(self, what: str) -> dict[str, int]:
        counts = Counter(getattr(row.image, what) for row in self.rows)
        return {name: counts[name] for name in sorted(counts) if name}

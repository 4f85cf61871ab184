"""Write a corrected copy of a manifest; the manifest itself is never changed."""

from __future__ import annotations

import csv
import difflib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.files import write_text
from fedgrain.folders.labels import folded
from fedgrain.folders.manifest import (
    SPLITS,
    LabelReader,
    client_spelling,
    manifest_rows,
    read_split,
)
from fedgrain.folders.mistakes import Mistakes
from fedgrain.taxonomy.tree import Taxonomy


@dataclass
class Fixed:
    """What was changed, each change with the number of rows, and what is left for the user."""

    out: Path
    rows: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # images of rows that were left out
    left: list[str] = field(default_factory=list)

    def changed(self, text: str) -> None:
        """Count a change."""
        self.changes[text] = self.changes.get(text, 0) + 1


def fix_manifest(
    path: str | Path, taxonomy: Taxonomy, out: str | Path, *, replace: bool = False
) -> Fixed:
    """Write a copy of a manifest with every mistake corrected whose correction is clear.

    Case and spaces become those of the taxonomy, a misspelt label the one name that is near, an
    image that is not there the one file whose name differs only in case. A row that repeats
    another, or whose image is not there, is left out. Everything else stays as it is and is listed.
    An earlier copy, which the user may have worked on, is overwritten only with ``replace``.
    """
    path, out = Path(path), Path(out)
    if out.exists() and path.exists() and out.samefile(path):
        raise DataError(f"{out}: the manifest itself, which is never changed; name another file")
    if out.exists() and not replace:
        raise DataError(f"{out} is already there; --replace writes over it")
    return _Fixer(path, taxonomy, out).fix()


class _Fixer:
    def __init__(self, path: Path, taxonomy: Taxonomy, out: Path) -> None:
        self._path = path
        self._mistakes = Mistakes(path)
        self._reader = LabelReader(taxonomy, self._mistakes)
        self._fixed = Fixed(out)
        self._names_in: dict[Path, dict[str, list[str]]] = {}  # of folders, by folded name
        self._steps: dict[str, Callable[[str, str], str]] = {
            "label": self._label, "split": self._split, "client": self._client,
        }  # fmt: skip

    def fix(self) -> Fixed:
        lines: list[list[str]] = []
        rows = list(manifest_rows(self._path, self._mistakes, lines.append))
        header = list(rows[0][1]) if rows else ["path", "label"]
        self._clients = client_spelling([row.get("client", "") for _, row in rows])
        seen: dict[str, dict[str, str]] = {}
        good = []
        for where, row in rows:
            image = self._image(row["path"])
            if image is None:
                continue
            new = {name: self._steps.get(name, _same)(value, where) for name, value in row.items()}
            new["path"] = image
            first = seen.setdefault(image, new)
            if first is not new and self._meaning(first) == self._meaning(new):
                self._fixed.changed("row that repeats another left out")
                continue
            if first is not new:
                text = f"{image!r} has two rows that differ"
                self._mistakes.add(where, ("twice", image), text, "; remove one")
            good.append([new[name] for name in header])
        for note in self._mistakes.notes:
            if note.startswith("the column"):
                self._fixed.changed(note)
        start = f"{self._path}, "
        self._fixed.left = [
            mistake.told(mistake.where.removeprefix(start))
            for mistake in self._mistakes.groups.values()
        ]
        self._fixed.rows = len(good)
        into = io.StringIO()
        csv.writer(into, lineterminator="\n").writerows([header, *good, *lines])
        write_text(self._fixed.out, into.getvalue())
        return self._fixed

    def _meaning(self, row: dict[str, str]) -> dict[str, object]:
        """Return a row with what its label and split mean, however they are written."""
        nodes = self._reader.labels.find(row["label"]).nodes
        label = nodes if len(nodes) == 1 else row["label"]
        return {**row, "label": label, "split": row.get("split") or "train"}

    def _label(self, label: str, where: str) -> str:
        found = self._reader.labels.find(label)
        node = found.nodes[0] if len(found.nodes) == 1 else None
        if node is None and label and not found.nodes:
            node = self._reader.labels.guess(label)
        if node is None:
            self._reader.node(label, where)  # lists the mistake
            return label
        if found.nodes and found.exact:
            return label
        right = self._reader.labels.spelled(node)
        self._fixed.changed(f"label {label!r} to {right!r}")
        return right

    def _split(self, split: str, where: str) -> str:
        if not split or split in SPLITS:
            return split
        near = difflib.get_close_matches(folded(split), SPLITS, n=1)
        known = read_split(split, where, Mistakes(self._path)) or (near[0] if near else "")
        if not known:
            read_split(split, where, self._mistakes)  # lists the mistake
            return split
        self._fixed.changed(f"split {split!r} to {known!r}")
        return known

    def _client(self, client: str, where: str) -> str:
        right = self._clients.get(client, client)
        if right != client:
            self._fixed.changed(f"client {client!r} to {right!r}")
        return right

    def _image(self, name: str) -> str | None:
        """Return the path to write; None for an image that is not there."""
        image = self._path.parent / name
        try:
            there = bool(name) and image.is_file()
        except (OSError, ValueError):  # a path with a NUL byte does not exist
            there = False
        if not there:
            alike = self._alike(image) if name else []
            if len(alike) != 1:
                self._fixed.missing.append(name)
                self._fixed.changed("row left out, its image is not there")
                return None
            self._fixed.changed(f"image {name!r} to {alike[0]!r}")
            image = image.with_name(alike[0])
            name = str(Path(name).with_name(alike[0]))
        elsewhere = self._fixed.out.parent.resolve() != self._path.parent.resolve()
        if elsewhere and not Path(name).is_absolute():
            return os.path.relpath(image.absolute(), self._fixed.out.parent.absolute())
        return name

    def _alike(self, image: Path) -> list[str]:
        """Return the files beside an image whose names differ from its own only in case."""
        folder = image.parent
        if folder not in self._names_in:
            names: dict[str, list[str]] = {}
            try:
                for name in sorted(path.name for path in folder.iterdir()):
                    names.setdefault(folded(name), []).append(name)
            except (OSError, ValueError):
                names = {}
            self._names_in[folder] = names
        return self._names_in[folder].get(folded(image.name), [])


def _same(value: str, where: str) -> str:
    return value

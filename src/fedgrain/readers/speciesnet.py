"""SpeciesNet: classes as ``uuid;class;order;family;genus;species;common name``.

A source is its list of classes (a line each), or its predictions (JSON), which label images. Its
species are epithets, so they get the genus before them. Classes without a rank (animal, blank,
vehicle) have only a common name: animals hang from *animal*, the others stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.importers.bounded import a_list, a_text, an_object, json_of, text_of
from fedgrain.importers.contract import Reading, ReadOptions
from fedgrain.importers.rank_rows import RankRows

RANKS = ("class", "order", "family", "genus", "species")
_TOP = "animal"
_FIELDS = "uuid;class;order;family;genus;species;common name"


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read lists of classes (``.txt``) and predictions (``.json``)."""
    reading = Reading()
    rows = RankRows(("kingdom", *RANKS))
    named: list[tuple[int, str, str]] = []  # row, uuid, common name
    images: list[tuple[str, int, str, Path]] = []
    for source in sources:
        if source.suffix.lower() == ".json":
            for path, label, where in _predictions(source, reading):
                named.append(_row(label, where, rows))
                images.append((path, named[-1][0], where, source.parent))
        else:
            for number, line in enumerate(text_of(source).split("\n"), start=1):
                if line.strip():
                    named.append(_row(line, f"{source}, line {number}", rows))
    nodes = rows.settle(reading)
    for row, uuid, common in named:
        node = nodes[row]
        if node is not None:
            reading.classes.synonyms(node, uuid, common)
    for path, row, where, base in images:
        node = nodes[row]
        if node is not None:
            reading.image(path, node, where, base)
    return reading


def _row(label: str, where: str, rows: RankRows) -> tuple[int, str, str]:
    parts = [part.strip() for part in label.split(";")]
    if len(parts) != 7:
        raise DataError(f"{where}: {len(parts)} fields where there should be 7: {_FIELDS}")
    uuid, *ranks, epithet, common = parts
    genus = ranks[-1]
    if epithet and not genus:
        raise DataError(f"{where}: the species {epithet!r} has no genus")
    if not any((*ranks, epithet, common)):
        raise DataError(f"{where}: a class without a name; write {_FIELDS}")
    species = f"{genus} {epithet}" if epithet else ""
    top = _TOP if any(ranks) else common
    return rows.add((top, *ranks, species), where), uuid, common


def _predictions(source: Path, reading: Reading) -> list[tuple[str, str, str]]:
    """Return the path, the label and the place of every prediction."""
    content = an_object(json_of(source), str(source))
    found = []
    for number, record in enumerate(a_list(content, "predictions", str(source)), start=1):
        where = f"{source}, prediction {number}"
        entry = an_object(record, where)
        path = a_text(entry, "filepath", where, needed=True)
        label = a_text(entry, "prediction", where)
        if label:
            found.append((path, label, where))
        else:
            reading.skip("it has no prediction", where)
    return found

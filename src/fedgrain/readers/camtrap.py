"""Camtrap DP packages (camera traps): media, deployments, observations and their taxa.

See https://camtrap-dp.tdwg.org. Observations of single media label them; those of an event label
its media that have none. The place of a deployment is the site, who classified is the annotator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fedgrain.errors import DataError
from fedgrain.images.archives import escapes
from fedgrain.importers.bounded import a_list, a_text, an_object, json_of, table_rows
from fedgrain.importers.contract import Reading, ReadOptions
from fedgrain.importers.image_files import is_address
from fedgrain.importers.rank_rows import RankRows

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
_TABLES = {
    "deployments": ("deploymentID",),
    "media": ("mediaID", "deploymentID", "filePath"),
    "observations": ("observationType", "scientificName"),
}
_WITHOUT_NAME = ("human", "vehicle", "blank")  # types that are a class by themselves
_ANIMAL = "animal"
Row = tuple[str, dict[str, str]]


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read packages: their folders, or their ``datapackage.json``."""
    reading = Reading()
    for source in sources:
        package = source / "datapackage.json" if source.is_dir() else source
        _Package(package).into(reading, options)
    return reading


@dataclass(frozen=True)
class _Label:
    row: int  # of the RankRows
    annotator: str
    where: str


class _Package:
    def __init__(self, package: Path) -> None:
        self._folder = package.parent
        content = an_object(json_of(package), str(package))
        self._taxa = [
            (f"{package}, taxonomic {number}", an_object(taxon, f"{package}, taxonomic {number}"))
            for number, taxon in enumerate(
                a_list(content, "taxonomic", str(package), needed=False), start=1
            )
        ]
        named: dict[str, Path] = {}
        for number, entry in enumerate(a_list(content, "resources", str(package)), start=1):
            where = f"{package}, resource {number}"
            resource = an_object(entry, where)
            name = a_text(resource, "name", where, needed=True)
            if name in _TABLES:
                path = a_text(resource, "path", where, needed=True)
                if is_address(path) or escapes(path) or (self._folder / path).is_symlink():
                    raise DataError(f"{where}: {path!r} is not a file of the package")
                named[name] = self._folder / path
        missing = [name for name in _TABLES if name not in named]
        if missing:
            raise DataError(f"{package}: 'resources' names no table {missing[0]!r}")
        self._tables = {name: _rows(path, _TABLES[name]) for name, path in named.items()}
        self._rows = RankRows(("kind", *RANKS))
        self._taxon: dict[str, list[str]] = {}

    def into(self, reading: Reading, options: ReadOptions) -> None:
        """Add the classes and the labelled media to a reading."""
        synonyms = self._read_taxa()
        by_media, by_event = self._observations(reading)
        nodes = self._rows.settle(reading)
        for number, words in synonyms:
            node = nodes[number]
            if node is not None:
                reading.classes.synonyms(node, *words)
        sites = {
            row["deploymentID"]: row.get("locationName") or row.get("locationID") or ""
            for _, row in self._tables["deployments"]
        }
        for where, row in self._tables["media"]:
            labels = by_media.get(row["mediaID"]) or _of_events(row, by_event)
            if not labels:
                reading.skip("no observation classifies the medium", where)
            path, name = row["filePath"], row.get("fileName", "")
            local = name if is_address(path) and name and options.images is not None else path
            for label in labels:
                node = nodes[label.row]
                if node is not None:
                    site = sites.get(row["deploymentID"], "")
                    reading.image(
                        local, node, where, self._folder, site=site, annotator=label.annotator
                    )

    def _read_taxa(self) -> list[tuple[int, list[str]]]:
        """Add the taxa of the metadata; return the row of each and its other names."""
        found = []
        for where, taxon in self._taxa:
            name = a_text(taxon, "scientificName", where, needed=True)
            cells = [a_text(taxon, rank, where) for rank in RANKS]
            rank = a_text(taxon, "taxonRank", where).casefold() or "species"
            self._taxon[name] = _ranked(name, rank, cells)
            vernacular = an_object(taxon.get("vernacularNames") or {}, where)
            words = [a_text(vernacular, language, where) for language in vernacular]
            row = self._rows.add(self._taxon[name], where)
            found.append((row, [*words, a_text(taxon, "taxonID", where)]))
        return found

    def _observations(
        self, reading: Reading
    ) -> tuple[dict[str, list[_Label]], dict[str, list[tuple[datetime, datetime, _Label]]]]:
        by_media: dict[str, list[_Label]] = {}
        by_event: dict[str, list[tuple[datetime, datetime, _Label]]] = {}
        for where, row in self._tables["observations"]:
            cells = self._classified(row)
            if cells is None:
                reading.skip("the observation is unknown or unclassified", where)
                continue
            label = _Label(self._rows.add(cells, where), row.get("classifiedBy", ""), where)
            if row.get("mediaID"):
                by_media.setdefault(row["mediaID"], []).append(label)
            elif row.get("eventStart") and row.get("eventEnd"):
                span = _time(row["eventStart"], where), _time(row["eventEnd"], where)
                by_event.setdefault(row.get("deploymentID", ""), []).append((*span, label))
            else:
                reading.skip(
                    "the observation names neither a medium nor the times of an event", where
                )
        return by_media, by_event

    def _classified(self, row: Mapping[str, str]) -> list[str] | None:
        kind, name = row["observationType"].casefold(), row["scientificName"]
        if name:
            return self._taxon.get(name) or _ranked(name, "", [""] * len(RANKS))
        if kind in (_ANIMAL, *_WITHOUT_NAME):
            return [kind, *[""] * len(RANKS)]
        return None


def _rows(path: Path, needed: Sequence[str]) -> list[Row]:
    def check(header: list[str]) -> None:
        missing = [name for name in needed if name not in header]
        if missing:
            raise DataError(f"{path}, line 1: the header has no column {missing[0]!r}")

    return list(table_rows(path, check, ","))


def _ranked(name: str, rank: str, cells: list[str]) -> list[str]:
    """Return the cells of a taxon: its name at its rank, and the genus that a species names."""
    words = name.split()
    if rank not in RANKS:
        rank = "species" if len(words) > 1 else "genus"
    depth = RANKS.index(rank)
    found = [*cells[:depth], name, *[""] * (len(RANKS) - depth - 1)]
    if rank == "species" and not found[-2] and len(words) > 1:
        found[-2] = words[0]
    return [_ANIMAL, *found]


def _of_events(
    row: Mapping[str, str], by_event: Mapping[str, list[tuple[datetime, datetime, _Label]]]
) -> list[_Label]:
    """Return the labels of the events that a medium was taken in."""
    events = by_event.get(row["deploymentID"], [])
    if not events or not row.get("timestamp"):
        return []
    try:
        taken = datetime.fromisoformat(row["timestamp"])
        return [label for start, end, label in events if start <= taken <= end]
    except (ValueError, TypeError):  # no time, or only one of the two has a time zone
        return []


def _time(text: str, where: str) -> Any:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise DataError(f"{where}: {text!r} is not a time such as 2020-05-30T02:57:37Z") from None

"""Darwin Core archives: taxa or occurrences with their media (extra ``dwca``).

The archive is unpacked by our own rules, and its descriptor is checked before python-dwca-reader
opens what it names.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedgrain.errors import DataError
from fedgrain.images.archives import escapes, unpack
from fedgrain.importers.contract import Reading, ReadOptions
from fedgrain.importers.markup import refuse_entities
from fedgrain.importers.rank_rows import RankRows
from fedgrain.text import one_line

RANKS = ("kingdom", "phylum", "class", "order", "family", "subfamily", "genus", "species")
_ARCHIVES = (".zip", ".gz", ".tgz", ".xz", ".bz2", ".tar")
_MEDIA = ("multimedia", "multimediaobject", "image", "simplemultimedia")
_TERMS = {  # what is kept of a row; GBIF's have 200 fields
    *RANKS, "specificEpithet", "scientificName", "canonicalName", "taxonRank", "taxonID",
    "parentNameUsageID", "acceptedNameUsageID", "vernacularName", "institutionCode",
    "identifiedBy", "associatedMedia", "accessURI", "identifier", "references",
}  # fmt: skip
Record = tuple[str, str, dict[str, str]]  # place, id of the core, fields by short term


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read archives: packed, or their folders."""
    try:
        import dwca.read  # noqa: F401 - only whether it is there
    except ImportError:
        raise DataError(
            "Darwin Core archives need python-dwca-reader: pip install 'fedgrain[dwca]'"
        ) from None
    reading = Reading()
    for source in sources:
        if source.is_dir():
            _read_folder(source, source, source, reading)
            continue
        if source.suffix.lower() not in _ARCHIVES:
            raise DataError(f"{source}: neither a folder nor an archive ({', '.join(_ARCHIVES)})")
        with tempfile.TemporaryDirectory(prefix="fedgrain-dwca-") as aside:
            folder = Path(aside) / "archive"
            unpack(source, folder)
            inner = list(folder.iterdir())
            if len(inner) == 1 and inner[0].is_dir():
                folder = inner[0]
            _read_folder(folder, source, source.parent, reading)
    return reading


def _read_folder(folder: Path, source: Path, base: Path, reading: Reading) -> None:
    """Read an unpacked archive; ``base`` is where paths of its images start."""
    from dwca.read import DwCAReader

    _check(folder, source)
    try:
        with DwCAReader(str(folder), skip_metadata=True) as archive:
            kind = (archive.core_file.file_descriptor.type or "").rpartition("/")[2].casefold()
            core = list(_records(archive.core_file, source))
            extensions = {
                (file.file_descriptor.type or "").rpartition("/")[2].casefold(): list(
                    _records(file, source)
                )
                for file in archive.extension_files
            }
    except (DataError, OSError, MemoryError):
        raise
    except Exception as error:  # the package raises whatever its parsing meets
        raise DataError(
            f"{source}: not a Darwin Core archive we read: {type(error).__name__}: "
            f"{one_line(error)}"
        ) from None
    media: dict[str, list[tuple[str, str]]] = {}
    for name in _MEDIA:
        for where, core_id, fields in extensions.get(name, ()):
            media.setdefault(core_id, []).append((_address(fields), where))
    if kind == "taxon":
        _Taxa(core, extensions.get("vernacularname", ()), media, base).into(reading)
    elif kind in ("occurrence", ""):
        _occurrences(core, media, base, reading)
    else:
        raise DataError(f"{source}: its core is {kind!r}; Taxon and Occurrence are read")


def _check(folder: Path, source: Path) -> None:
    """Refuse entities in any XML that is read, and data files that lie elsewhere."""
    from dwca.descriptors import ArchiveDescriptor

    descriptor = folder / "meta.xml"
    for path in [descriptor, *sorted((folder / "dataset").glob("*"))]:
        if path.is_symlink():
            raise DataError(f"{source}: {path.name} is a link; put the file itself there")
        if path.is_file():
            refuse_entities(path.read_bytes(), f"{source}, {path.relative_to(folder)}")
    if not descriptor.is_file():
        return
    try:
        known = ArchiveDescriptor(descriptor.read_text("utf-8-sig"))
        locations = [str(part.file_location) for part in (known.core, *known.extensions)]
    except Exception as error:  # missing tags and attributes, numbers that are none
        raise DataError(
            f"{source}, meta.xml: not a descriptor of an archive: {type(error).__name__}: "
            f"{one_line(error)}"
        ) from None
    for location in locations:
        path = folder / location
        if escapes(location) or path.is_symlink():
            raise DataError(f"{source}, meta.xml: {location!r} lies outside the archive")
        if not path.is_file():
            raise DataError(f"{source}, meta.xml: its data file {location!r} is not there")


def _records(file: Any, source: Path) -> Iterator[Record]:
    """Yield the rows of a data file; one that cannot be read is named."""
    name = f"{source}, {file.file_descriptor.file_location}"
    number = 0
    try:
        for number, row in enumerate(file.iter_rows(), start=1):
            core_id = row.id if file.file_descriptor.represents_corefile else row.core_id
            fields = {
                short: value.strip()
                for term, value in row.data.items()
                if (short := str(term).rpartition("/")[2].rpartition("#")[2]) in _TERMS
            }
            yield f"{name}, row {number}", core_id or "", fields
    except OSError:
        raise
    except Exception as error:  # too few fields, an encoding that is none
        raise DataError(
            f"{name}, row {number + 1}: cannot be read: {type(error).__name__}: {one_line(error)}"
        ) from None


def _address(fields: dict[str, str]) -> str:
    return fields.get("accessURI") or fields.get("identifier") or fields.get("references") or ""


def _occurrences(
    core: Sequence[Record], media: dict[str, list[tuple[str, str]]], base: Path, reading: Reading
) -> None:
    """Label the media of every occurrence by its ranks, down to its taxonRank."""
    rows = RankRows(RANKS)
    for where, _, fields in core:
        rows.add(_cells(fields), where)
    for number, node in enumerate(rows.settle(reading)):
        where, core_id, fields = core[number]
        images = media.get(core_id, []) if core_id else []
        images = images or [
            (part.strip(), where)
            for part in fields.get("associatedMedia", "").split("|")
            if part.strip()
        ]
        if number in rows.doubtful:
            continue
        if node is None:
            reading.skip("it has no class in any rank", where)
            continue
        reading.classes.synonyms(node, fields.get("vernacularName", ""))
        if not images:
            reading.skip("the occurrence has no media", where)
        for path, place in images:
            reading.image(
                path, node, place, base,
                site=fields.get("institutionCode", ""), annotator=fields.get("identifiedBy", ""),
            )  # fmt: skip


def _cells(fields: dict[str, str]) -> list[str]:
    """Return a cell per rank; below the taxonRank that the labeller gave, cells are empty."""
    cells = [fields.get(rank, "") for rank in RANKS[:-1]]
    genus, epithet = fields.get("genus", ""), fields.get("specificEpithet", "")
    species = fields.get("species", "") or (f"{genus} {epithet}" if genus and epithet else "")
    stopped = fields.get("taxonRank", "").casefold()
    name = fields.get("scientificName", "")
    if not species and stopped == "species" and name:
        species = " ".join(name.split()[:2])  # without its author
    cells.append(species)
    if stopped in RANKS:
        depth = RANKS.index(stopped)
        cells[depth + 1 :] = [""] * (len(cells) - depth - 1)
        if not cells[depth] and name:
            cells[depth] = name.split()[0]
    return cells


class _Taxa:
    """A core of taxa: their tree, by parents or by ranks, synonyms, and images of taxa."""

    def __init__(
        self,
        core: Sequence[Record],
        vernacular: Sequence[Record],
        media: dict[str, list[tuple[str, str]]],
        base: Path,
    ) -> None:
        self._core, self._vernacular, self._media, self._base = core, vernacular, media, base
        self._nodes: dict[str, int] = {}

    def into(self, reading: Reading) -> None:
        """Add everything to a reading."""
        accepted = [record for record in self._core if not _is_synonym(record)]
        if any(fields.get("parentNameUsageID") for _, _, fields in accepted):
            self._by_parents(accepted, reading)
        else:
            self._by_ranks(accepted, reading)
        for where, core_id, fields in self._core:
            if _is_synonym((where, core_id, fields)):
                node = self._nodes.get(fields["acceptedNameUsageID"])
                if node is None:
                    reading.skip("a synonym whose accepted taxon is not there", where)
                else:
                    reading.classes.synonyms(node, fields.get("scientificName", ""))
        for _, core_id, fields in self._vernacular:
            if core_id in self._nodes:
                name = fields.get("vernacularName", "")
                reading.classes.synonyms(self._nodes[core_id], name)
        for core_id, images in self._media.items():
            for path, where in images:
                if core_id in self._nodes:
                    reading.image(path, self._nodes[core_id], where, self._base)
                else:
                    reading.skip("its taxon is not there, or was left out", where)

    def _by_parents(self, accepted: Sequence[Record], reading: Reading) -> None:
        for where, core_id, fields in accepted:
            key = fields.get("taxonID") or core_id
            parent = fields.get("parentNameUsageID", "")
            name = fields.get("canonicalName") or fields.get("scientificName") or key
            rank = fields.get("taxonRank", "").casefold()
            node = reading.classes.add(key, "" if parent == key else parent, name, where, rank=rank)
            reading.classes.synonyms(node, key, fields.get("vernacularName", ""))
            self._nodes[key] = self._nodes[core_id] = node

    def _by_ranks(self, accepted: Sequence[Record], reading: Reading) -> None:
        rows = RankRows(RANKS)
        for where, _, fields in accepted:
            rows.add(_cells(fields), where)
        for (where, core_id, fields), node in zip(accepted, rows.settle(reading), strict=True):
            if node is not None:
                reading.classes.synonyms(node, core_id, fields.get("vernacularName", ""))
                self._nodes[core_id] = self._nodes[fields.get("taxonID") or core_id] = node
            else:
                reading.skip("a taxon without a place in the ranks", where)


def _is_synonym(record: Record) -> bool:
    _, core_id, fields = record
    accepted = fields.get("acceptedNameUsageID", "")
    return bool(accepted) and accepted not in (core_id, fields.get("taxonID", core_id))

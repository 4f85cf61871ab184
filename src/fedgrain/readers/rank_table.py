"""Tables with a column per rank, and empty cells where the labeller stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.importers.bounded import table_rows
from fedgrain.importers.columns import USUAL, find_columns, plain, rank_columns
from fedgrain.importers.contract import Reading, ReadOptions, split_named
from fedgrain.importers.rank_rows import RankRows

RANKS = (
    "domain", "superkingdom", "kingdom", "subkingdom", "infrakingdom", "superphylum", "phylum",
    "division", "subphylum", "infraphylum", "superclass", "class", "subclass", "infraclass",
    "superorder", "order", "suborder", "infraorder", "superfamily", "family", "subfamily",
    "supertribe", "tribe", "subtribe", "genus", "subgenus", "species", "subspecies", "variety",
    "form",
)  # fmt: skip
_EPITHET = "specificepithet"
_NOT_RANKS = {word for words in USUAL.values() for word in words} | {"id", "uuid", "date", "time"}
_WANTED = ("image", "site", "annotator", "split", "synonyms")


@dataclass(frozen=True)
class _Record:
    row: int  # of the RankRows
    fields: dict[str, str]  # by what they hold
    where: str
    base: Path


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read tables; the same ranks in all of them."""
    reading = Reading()
    rows: RankRows | None = None
    ranks: list[str] = []
    records: list[_Record] = []
    for source in sources:
        layout = _Layout(source, options)
        for where, row in table_rows(source, layout.check):
            if rows is None:
                ranks, rows = layout.ranks, RankRows(layout.ranks)
                reading.note(f"ranks, from the top: {', '.join(ranks)}")
            if layout.ranks != ranks:
                raise DataError(
                    f"{source}, line 1: its ranks are {', '.join(layout.ranks)}, those of "
                    f"{sources[0]} {', '.join(ranks)}; choose the same with --ranks"
                )
            number = rows.add(layout.cells(row), where)
            fields = {what: row[column] for what, column in layout.columns.items()}
            records.append(_Record(number, fields, where, source.parent))
    if rows is None:
        raise DataError(f"{sources[0]}: the table has a header but no rows")
    for record, node in zip(records, rows.settle(reading), strict=True):
        if node is not None:
            reading.classes.synonyms(node, record.fields.get("synonyms", ""))
        if record.row not in rows.doubtful:
            _add_image(reading, record, node)
    return reading


def _add_image(reading: Reading, record: _Record, node: int | None) -> None:
    fields = record.fields
    if "image" not in fields:
        return
    if not fields["image"]:
        reading.note("rows without an image only add their class")
    elif node is None:
        reading.skip("it has no class in any rank", record.where)
    else:
        reading.image(
            fields["image"],
            node,
            record.where,
            record.base,
            site=fields.get("site", ""),
            annotator=fields.get("annotator", ""),
            split=split_named(fields.get("split", ""), record.where),
        )


class _Layout:
    """Which columns of one table are ranks, and which hold what else."""

    def __init__(self, source: Path, options: ReadOptions) -> None:
        self._source, self._options = source, options
        self.ranks: list[str] = []
        self.columns: dict[str, str] = {}
        self._rank_columns: list[str] = []
        self._genus = self._epithet = ""

    def check(self, header: list[str]) -> None:
        """Find the columns of a header."""
        where = f"{self._source}, line 1"
        self.columns = find_columns(header, _WANTED, self._options.columns, where)
        taken = set(self.columns.values())  # used only for membership tests
        chosen = self._options.ranks
        if chosen:
            self._rank_columns = rank_columns(header, chosen, where)
        else:
            known = {plain(name): name for name in header if name not in taken}
            self._rank_columns = [known[rank] for rank in RANKS if rank in known]
            self._genus, self._epithet = known.get("genus", ""), known.get(_EPITHET, "")
            if not self._rank_columns:
                self._rank_columns = [
                    name for name in header if name not in taken and plain(name) not in _NOT_RANKS
                ]
        doubled = [name for name in self._rank_columns if header.count(name) > 1 or not name]
        if doubled or not self._rank_columns:
            raise DataError(
                f"{where}: {'the header has no columns of ranks' if not doubled else ''}"
                f"{f'the column {doubled[0]!r} is there twice or has no name' if doubled else ''}; "
                "name them from the top down with --ranks order,family,genus"
            )
        self.ranks = [plain(name) if plain(name) in RANKS else name for name in self._rank_columns]
        if self._epithet and self._genus and "species" not in self.ranks:
            self.ranks.append("species")
        else:
            self._epithet = ""

    def cells(self, row: dict[str, str]) -> list[str]:
        """Return the cells of a row, from the top rank down."""
        cells = [row[column] for column in self._rank_columns]
        if self._epithet:
            genus, epithet = row[self._genus], row[self._epithet]
            cells.append(f"{genus} {epithet}" if genus and epithet else "")
        return cells

"""Rows with a cell per rank: from cells with holes to one tree.

A hole is an empty cell above one that is not. Where other rows name the same class with that cell,
and all of them agree, the hole is filled from them; where no row does, the class hangs from the
nearest cell above. Where they disagree (a genus of plants and one of birds, and nothing in the row
tells which), the row is left out, because any choice would be a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedgrain.folders.labels import folded
from fedgrain.importers.contract import Reading
from fedgrain.text import counted

_EMPTY = {"", "na", "n/a", "nan", "null", "-", "?"}
_MOST_HOMONYMS = 200  # places of one name that are compared
Cells = tuple[str, ...]


class RankRows:
    """Collects rows, then gives each its class."""

    def __init__(self, ranks: Sequence[str]) -> None:
        self._ranks = tuple(ranks)
        self._rows: list[tuple[Cells, str]] = []
        self.doubtful: set[int] = set()  # rows that were left out; for membership tests
        self._spelled: dict[tuple[int, str], str] = {}  # rank and folded cell: as first written

    def add(self, cells: Sequence[str], where: str) -> int:
        """Add a row and return its number."""
        plain: list[str] = []
        for rank, cell in enumerate(cells):
            key = folded(cell)
            key = "" if key in _EMPTY else key
            plain.append(key)
            if key:
                self._spelled.setdefault((rank, key), cell)
        self._rows.append((tuple(plain), where))
        return len(self._rows) - 1

    def settle(self, reading: Reading) -> list[int | None]:
        """Return the class of each row: None for a row that is empty, or left out (it is told)."""
        distinct = dict.fromkeys(cells for cells, _ in self._rows)
        filled, doubtful = fill_holes(list(distinct), len(self._ranks))
        changed = sum(filled[cells] != cells for cells, _ in self._rows)
        if changed:
            rows = counted(changed, "row")
            reading.note(
                f"{rows} with an empty cell above the label, filled from rows that have it"
            )
        found: list[int | None] = []
        for number, (cells, where) in enumerate(self._rows):
            if cells in doubtful:
                self.doubtful.add(number)
                rank, one, two = doubtful[cells]
                name = self._spelled[rank, cells[rank]]
                reading.skip(
                    f"{name!r} is under {self._path(one)} and under {self._path(two)}, and the row "
                    "does not say which",
                    where,
                )
            found.append(None if cells in doubtful else self._class(reading, filled[cells], where))
        self._tell_homonyms(reading)
        return found

    def _class(self, reading: Reading, cells: Cells, where: str) -> int | None:
        places = [rank for rank, cell in enumerate(cells) if cell]
        if not places:
            return None
        names = [self._spelled[rank, cells[rank]] for rank in places]
        return reading.classes.path(names, where, [self._ranks[rank] for rank in places])

    def _path(self, cells: Cells) -> str:
        shown = [self._spelled[rank, cell] for rank, cell in enumerate(cells) if cell]
        return " > ".join(shown) or "the top"

    def _tell_homonyms(self, reading: Reading) -> None:
        classes = reading.classes.classes
        places: dict[tuple[str, str], list[str]] = {}
        for read in classes:
            above = classes[read.parent].name if read.parent >= 0 else "the top"
            places.setdefault((read.rank, folded(read.name)), []).append(above)
        several = [(key, tops) for key, tops in places.items() if len(tops) > 1]
        for (rank, name), tops in several[:20]:
            reading.note(
                f"{rank} {self._spelled.get((self._ranks.index(rank), name), name)!r} stands at "
                f"{len(tops)} places: under {', '.join(tops[:5])}"
            )
        if len(several) > 20:
            reading.note(f"{len(several) - 20:,} more names stand at several places")


def fill_holes(
    rows: Sequence[Cells], ranks: int
) -> tuple[dict[Cells, Cells], dict[Cells, tuple[int, Cells, Cells]]]:
    """Return each row with its holes filled; and rows in doubt: rank, and two places it may mean.

    >>> full, bare = ("chordata", "felidae", "felis"), ("chordata", "", "felis")
    >>> fill_holes([full, bare], 3)[0][bare]
    ('chordata', 'felidae', 'felis')
    """
    filled = {row: row for row in rows}
    doubtful: dict[Cells, tuple[int, Cells, Cells]] = {}
    for rank in range(ranks - 1, 0, -1):  # the deepest name says most
        alike: dict[str, list[Cells]] = {}
        for row in rows:
            if filled[row][rank]:
                alike.setdefault(filled[row][rank], []).append(row)
        for same in alike.values():
            if any("" in filled[row][:rank] for row in same):
                _fill(same, rank, filled, doubtful)
    return filled, doubtful


def _fill(
    same: Sequence[Cells],
    rank: int,
    filled: dict[Cells, Cells],
    doubtful: dict[Cells, tuple[int, Cells, Cells]],
) -> None:
    """Fill the cells above one rank, for rows with the same name at that rank."""
    above = dict.fromkeys(filled[row][:rank] for row in same)
    places: list[Cells] = []
    place_of: dict[Cells, int | None] = {}
    for cells in sorted(above, key=lambda cells: cells.count("")):
        fitting = [number for number, place in enumerate(places) if _fits(cells, place)]
        if len(places) > _MOST_HOMONYMS:
            return
        place_of[cells] = fitting[0] if len(fitting) == 1 else None
        if not fitting:
            place_of[cells] = len(places)
            places.append(cells)
        elif len(fitting) == 1:
            places[fitting[0]] = _merged(cells, places[fitting[0]])
    for row in same:
        cells = filled[row][:rank]
        number = place_of[cells]
        if number is not None:
            filled[row] = (*places[number], *filled[row][rank:])
        elif row not in doubtful:
            one, two = [place for place in places if _fits(cells, place)][:2]
            doubtful[row] = (rank, one, two)


def _fits(one: Cells, other: Cells) -> bool:
    return all(not a or not b or a == b for a, b in zip(one, other, strict=True))


def _merged(one: Cells, other: Cells) -> Cells:
    return tuple(a or b for a, b in zip(one, other, strict=True))

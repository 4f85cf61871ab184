"""The classes of a source while it is read: parents may come late, names may come twice.

Ids are made at the end. The id of a class is its name; where two classes have one name (a genus of
plants and one of birds), the names above are added in brackets: ``Morus (Moraceae)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fedgrain.errors import DataError, TaxonomyError
from fedgrain.folders.labels import folded
from fedgrain.taxonomy.edges import MAX_DEPTH, too_deep
from fedgrain.taxonomy.formats import split_synonyms
from fedgrain.taxonomy.tree import Taxonomy

TOP = -1  # above all classes of a source
LONGEST = 1_000  # signs of a name; a field of a table holds 131,072, and ids hold several names
_ROOT = "root"
_NOT_FOUND = -2  # a parent that has not been read yet


@dataclass
class ReadClass:
    """A class as its source names it."""

    name: str
    parent: int
    where: str  # file and line, or record
    rank: str = ""
    id: str = ""  # if the source's own ids are kept
    synonyms: dict[str, None] = field(default_factory=dict)


class ClassTree:
    """Collects classes by their path of names, or by the keys a source has for them."""

    def __init__(self) -> None:
        self.classes: list[ReadClass] = []
        self._children: dict[tuple[int, str, str], int] = {}
        self._keys: dict[str, int] = {}
        self._waiting: dict[int, str] = {}  # class: the key of its parent

    def __len__(self) -> int:
        return len(self.classes)

    def path(
        self, names: Sequence[str], where: str, ranks: Sequence[str] = (), under: int = TOP
    ) -> int:
        """Return the class at the end of a path of names, made with all above it if it is new.

        Case and spaces do not tell classes apart.
        """
        if len(names) > MAX_DEPTH:
            raise DataError(f"{where}: {too_deep(_clean(names[MAX_DEPTH]), len(names))}")
        number = under
        for place, name in enumerate(names):
            rank = ranks[place] if ranks else ""
            key = (number, rank, folded(name))
            if not key[2]:
                raise DataError(f"{where}: a step of the path of classes is empty; write its name")
            if key not in self._children:
                self._children[key] = len(self.classes)
                self.classes.append(ReadClass(_checked(name, where), number, where, rank))
            number = self._children[key]
        return number

    def add(
        self, key: str, parent: str, name: str, where: str, *, rank: str = "", keep_id: bool = False
    ) -> int:
        """Add a class by its key in the source, and that of its parent, which may come later.

        An empty parent is the top; ``keep_id`` makes the key the id.
        """
        if key in self._keys:
            first = self.classes[self._keys[key]].where
            raise DataError(f"{where}: the class {key!r} is also at {first}; remove one of them")
        shown = _checked(name, where) or _checked(key, where)
        if not shown:
            raise DataError(f"{where}: a class has neither a key nor a name; write its name")
        number = self._keys[key] = len(self.classes)
        above = _NOT_FOUND if parent else TOP
        self.classes.append(ReadClass(shown, above, where, rank, _clean(key) if keep_id else ""))
        if parent:
            self._waiting[number] = parent
        return number

    def number_of(self, key: str) -> int | None:
        """Return the class that was added with a key."""
        return self._keys.get(key)

    def synonyms(self, number: int, *words: str) -> None:
        """Add further names of a class."""
        for word in words:
            for part in split_synonyms(word):
                name = _checked(part, self.classes[number].where)
                if name and name != self.classes[number].name:
                    self.classes[number].synonyms[name] = None

    def link(self) -> None:
        """Find the parents that came late; refuse one that is missing, and circles."""
        for number, key in self._waiting.items():
            found = self._keys.get(key)
            read = self.classes[number]
            if found is None:
                raise DataError(
                    f"{read.where}: the parent {key!r} of {read.name!r} is not in the source; add "
                    "it or leave the parent empty"
                )
            read.parent = found
        self._waiting = {}
        self._refuse_circles()

    def _refuse_circles(self) -> None:
        settled: set[int] = set()  # used only for membership tests
        for start in range(len(self.classes)):
            walk: set[int] = set()
            number = start
            while number != TOP and number not in settled:
                if number in walk:
                    read = self.classes[number]
                    raise DataError(
                        f"{read.where}: {read.name!r} stands above itself; correct its parent"
                    )
                walk.add(number)
                number = self.classes[number].parent
            settled |= walk

    def lineage(self, number: int) -> list[str]:
        """Return the names from the top down to a class."""
        names: list[str] = []
        while number != TOP:
            names.append(self.classes[number].name)
            number = self.classes[number].parent
        return names[::-1]

    def taxonomy(
        self, kept: Iterable[int], root: str = "", *, above: bool = False
    ) -> tuple[Taxonomy, dict[int, str]]:
        """Return the tree of some classes and the id of each.

        Several classes at the top get a root above them, called ``root``; so does a single one if
        ``above`` is set.
        """
        numbers = sorted(kept)
        ids = self._ids(numbers)
        tops = [number for number in numbers if self.classes[number].parent == TOP]
        if len(tops) == 1 and not above and not root:
            ids[TOP] = top = ids[tops[0]]
            tops = []
        else:
            ids[TOP] = top = _free(_clean(root) or _ROOT, set(ids.values()))
        edges, where = [], []
        for number in numbers:
            read = self.classes[number]
            if read.parent != TOP or tops:
                edges.append((ids[read.parent], ids[number]))
                where.append(read.where)
        names = {ids[number]: self.classes[number].name for number in numbers}
        synonyms = {ids[number]: tuple(self.classes[number].synonyms) for number in numbers}
        tree = Taxonomy.from_edges(edges, names, root=top, where=where, synonyms=synonyms)
        if int(tree.depth.max()) > MAX_DEPTH:
            deepest = tree.ids[int(tree.depth.argmax())]
            raise TaxonomyError(too_deep(deepest, int(tree.depth.max())))
        return tree, ids

    def _ids(self, numbers: Sequence[int]) -> dict[int, str]:
        """Give every class an id: its own, its name, or its name with those above it."""
        ids = {number: self.classes[number].id for number in numbers if self.classes[number].id}
        taken = set(ids.values())
        same: dict[str, list[int]] = {}
        for number in numbers:
            if number not in ids:
                same.setdefault(folded(self.classes[number].name), []).append(number)
        for alike in same.values():
            alone = len(alike) == 1
            for number in alike:
                name = self.classes[number].name
                for wanted in [name] if alone else self._longer(number):
                    if wanted not in taken:
                        break
                else:
                    wanted = _free(name if alone else wanted, taken)
                ids[number] = wanted
                taken.add(wanted)
        return ids

    def _longer(self, number: int) -> list[str]:
        """Return the name of a class with more and more of the names above it in brackets."""
        *above, name = self.lineage(number)
        nearest = above[::-1][:3]
        return [
            f"{name} ({', '.join(nearest[:count])})" for count in range(1, len(nearest) + 1)
        ] or [name]


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken yet, with a number if need be."""
    wanted, count = name, 1
    while wanted in taken:
        count += 1
        wanted = f"{name} {count}"
    return wanted


def _clean(name: str) -> str:
    return " ".join(name.split())


def _checked(name: str, where: str) -> str:
    """Return a name without needless spaces; one that no table could hold is refused."""
    if len(name) > LONGEST:
        raise DataError(f"{where}: a name of {len(name):,} signs, and {LONGEST:,} are the most")
    return _clean(name)

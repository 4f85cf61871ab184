"""Find the node that a label means: by id, name or synonym, whatever its case and accents."""

from __future__ import annotations

import difflib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fedgrain.taxonomy.tree import Taxonomy

_CANDIDATES = 60  # names that are compared letter by letter
_SURE, _CLEAR = 0.8, 0.05  # how near the nearest must be, and how much nearer than the next


@dataclass(frozen=True)
class Found:
    """The nodes that a label may mean: one, or none, or several of the same name."""

    nodes: tuple[int, ...]
    exact: bool  # spelled as the taxonomy spells it


def folded(text: str) -> str:
    """Return a text without what spelling forgives: case, and spaces around and inside it.

    >>> folded(" Brahminy  Kite ")
    'brahminy kite'
    """
    return " ".join(text.split()).casefold()


def unaccented(text: str) -> str:
    """Return a folded text without accents.

    >>> unaccented("Kékvércse")
    'kekvercse'
    """
    plain = folded(text)
    if plain.isascii():
        return plain
    apart = unicodedata.normalize("NFKD", plain)
    return "".join(sign for sign in apart if not unicodedata.combining(sign))


def candidates(taxonomy: Taxonomy, nodes: Iterable[int]) -> str:
    """Return the ids of nodes that share a name, each with its parent's name."""
    shown = []
    for node in nodes:
        parent = int(taxonomy.parents[node])
        under = f" (under {taxonomy.names[parent]})" if parent >= 0 else ""
        shown.append(f"{taxonomy.ids[node]}{under}")
    return ", ".join(shown)


class Labels:
    """Finds nodes by id, unique name or unique synonym, and suggests similar ones if none match.

    Accents do not count where nothing else matches, so a tree may tell *pêche* from *péché*.
    """

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._taxonomy = taxonomy
        named = [*enumerate(taxonomy.names), *enumerate(taxonomy.ids)]
        further = [
            (taxonomy.index(node), word)
            for node, words in taxonomy.synonyms.items()
            for word in words
        ]
        self._exact = _by_key(named, str)
        self._folded = _by_key(named, folded)
        self._synonyms = _by_key(further, folded)
        self._unaccented = _by_key([*named, *further], unaccented)
        self._parts: dict[str, list[str]] | None = None

    def find(self, label: str) -> Found:
        """Return the nodes of a label: an id, else a name, else either in another spelling.

        Then come synonyms, and last all of these without accents.
        """
        if label in self._taxonomy:
            return Found((self._taxonomy.index(label),), exact=True)
        if label in self._exact:
            return Found(self._exact[label], exact=True)
        plain = folded(label)
        if plain in self._folded:
            return Found(self._folded[plain], exact=False)
        if plain in self._synonyms:
            return Found(self._synonyms[plain], exact=True)
        return Found(self._unaccented.get(unaccented(label), ()), exact=False)

    def spelled(self, node: int) -> str:
        """Return how the taxonomy spells a node: its name if no other node has it, else its id."""
        name = self._taxonomy.names[node]
        return name if self._exact[name] == (node,) else self._taxonomy.ids[node]

    def nearest(self, label: str, most: int = 3, cutoff: float = 0.5) -> list[str]:
        """Return the names and ids most like a label, the most similar first."""
        wanted = folded(label)
        words = [word for words in self._taxonomy.synonyms.values() for word in words]
        spelled = {
            folded(name): name for name in (*words, *self._taxonomy.ids, *self._taxonomy.names)
        }
        if len(spelled) > 2 * _CANDIDATES:
            spelled = {name: spelled[name] for name in self._alike(wanted) if name in spelled}
        near = difflib.get_close_matches(wanted, spelled, n=most, cutoff=cutoff)
        return [spelled[name] for name in near]

    def guess(self, label: str) -> int | None:
        """Return the node that a misspelt label almost certainly means; None if it is not clear."""
        near = self.nearest(label, 2, _SURE)
        if not near:
            return None
        ratios = [
            difflib.SequenceMatcher(None, folded(name), folded(label)).ratio() for name in near
        ]
        if len(near) > 1 and ratios[0] - ratios[1] < _CLEAR:
            return None
        nodes = self.find(near[0]).nodes
        return nodes[0] if len(nodes) == 1 else None

    def _alike(self, wanted: str) -> list[str]:
        """Return the folded names that share most parts of three letters with a text."""
        if self._parts is None:
            self._parts = {}
            for name in dict.fromkeys([*self._folded, *self._synonyms]):
                for part in _parts(name):
                    self._parts.setdefault(part, []).append(name)
        shared = Counter(name for part in _parts(wanted) for name in self._parts.get(part, ()))
        return [name for name, _ in shared.most_common(_CANDIDATES)]


def _by_key(
    named: Iterable[tuple[int, str]], key: Callable[[str], str]
) -> dict[str, tuple[int, ...]]:
    """Return the nodes of each spelling, in the order in which they come."""
    found: dict[str, tuple[int, ...]] = {}
    for node, name in named:
        others = found.get(key(name), ())
        if node not in others:
            found[key(name)] = (*others, node)
    return found


def _parts(text: str) -> set[str]:
    padded = f" {text} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}

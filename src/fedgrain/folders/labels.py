"""Find the node that a label means: by id or name, regardless of case and spaces."""

from __future__ import annotations

import difflib
from collections import Counter
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


class Labels:
    """Finds nodes by id or unique name, and suggests similar ones if there is no match."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._taxonomy = taxonomy
        self._exact: dict[str, tuple[int, ...]] = {}
        self._folded: dict[str, tuple[int, ...]] = {}
        for spelled, key in ((self._exact, str), (self._folded, folded)):
            for names in (taxonomy.names, taxonomy.ids):
                for node, name in enumerate(names):
                    others = spelled.get(key(name), ())
                    if node not in others:
                        spelled[key(name)] = (*others, node)
        self._parts: dict[str, list[str]] | None = None

    def find(self, label: str) -> Found:
        """Return the nodes of a label: an id, else a name, else either in another spelling."""
        if label in self._taxonomy:
            return Found((self._taxonomy.index(label),), exact=True)
        if label in self._exact:
            return Found(self._exact[label], exact=True)
        return Found(self._folded.get(folded(label), ()), exact=False)

    def spelled(self, node: int) -> str:
        """Return how the taxonomy spells a node: its name if no other node has it, else its id."""
        name = self._taxonomy.names[node]
        return name if self._exact[name] == (node,) else self._taxonomy.ids[node]

    def nearest(self, label: str, most: int = 3, cutoff: float = 0.5) -> list[str]:
        """Return the names and ids most like a label, the most similar first."""
        wanted = folded(label)
        spelled = {folded(name): name for name in (*self._taxonomy.ids, *self._taxonomy.names)}
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
            for name in self._folded:
                for part in _parts(name):
                    self._parts.setdefault(part, []).append(name)
        shared = Counter(name for part in _parts(wanted) for name in self._parts.get(part, ()))
        return [name for name, _ in shared.most_common(_CANDIDATES)]


def _parts(text: str) -> set[str]:
    padded = f" {text} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}

"""WordNet 3.0 nouns, and the full taxonomy over a list of them (method, section 2)."""

from __future__ import annotations

import difflib
import lzma
import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy.paths import (
    ancestors_upwards,
    choose_parents,
    choose_parents_by_images,
    tree_edges,
)
from fedgrain.taxonomy.tree import Taxonomy

# WordNet puts these three synsets under abstractions; the method gives them other parents.
_REHUNG = {
    "n06794110": ("n04217882",),  # street sign: under signboard instead of sign
    "n06874185": ("n04217882",),  # traffic light: under signboard instead of light
    "n13899404": ("n04274530",),  # ball: under sphere, the artefact, instead of the shape
}


def _wnid_of(offset: int) -> str:
    """Return the wnid of a synset: ``n`` and its 8-digit WordNet 3.0 offset."""
    return f"n{offset:08d}"


class WordNet:
    """All 82,115 noun synsets of WordNet 3.0: lemmas, sense order and hypernyms."""

    def __init__(self, text: str) -> None:
        """Read the table that ``scripts/make_wordnet.py`` writes, one column per line."""
        offsets, hypernyms, lemmas, senses = (line.split(" ") for line in text.splitlines())
        self.wnids = tuple(_wnid_of(offset) for offset in accumulate(map(int, offsets)))
        self._hypernyms, self._lemmas, self._senses = hypernyms, lemmas, senses
        self._row = {wnid: row for row, wnid in enumerate(self.wnids)}

    def __len__(self) -> int:
        return len(self.wnids)

    def __contains__(self, wnid: object) -> bool:
        return wnid in self._row

    def _find(self, wnid: str) -> int:
        if wnid not in self._row:
            raise TaxonomyError(
                f"{wnid!r} is not a noun of WordNet 3.0; give wnids as n and 8 digits, "
                "and note that offsets of WordNet 3.1 and other versions differ"
            )
        return self._row[wnid]

    def lemmas(self, wnid: str) -> list[str]:
        """Return all lemmas of a synset as WordNet spells them, with underscores for spaces."""
        return self._lemmas[self._find(wnid)].split("|")

    def name(self, wnid: str) -> str:
        """Return the name to display: the first lemma, with spaces."""
        return self.lemmas(wnid)[0].replace("_", " ")

    def sense_name(self, wnid: str) -> str:
        """Return the name of the sense, such as ``dog.n.01``."""
        first_sense = int(self._senses[self._find(wnid)].split("|")[0])
        return f"{self.lemmas(wnid)[0].lower()}.n.{first_sense:02d}"

    def hypernyms(self, wnid: str) -> list[str]:
        """Return the hypernyms (and instance hypernyms) in WordNet's pointer order."""
        row = self._find(wnid)
        differences = self._hypernyms[row]
        return [self.wnids[row - int(d)] for d in differences.split("|")] if differences else []

    @cached_property
    def _lemma_line(self) -> str:
        """All lemmas in lower case: a space before each synset and at the end, bars inside."""
        return f" {' '.join(self._lemmas)} ".lower()

    def _rows_with(self, lemma: str) -> list[int]:
        """Return the synsets of a lemma: looked for in the line, as few are ever asked for."""
        line, rows, row, last = self._lemma_line, [], -1, 0
        place = line.find(lemma) if lemma and not {" ", "|"} & set(lemma) else -1
        while place >= 0:
            if line[place - 1] in " |" and line[place + len(lemma)] in " |":
                row, last = row + line.count(" ", last, place), place
                rows.append(row)
            place = line.find(lemma, place + 1)
        return rows

    def senses(self, lemma: str) -> list[str]:
        """Return the wnids of all senses of a lemma, most frequent first."""
        key = lemma.strip().lower().replace(" ", "_")
        found = []
        for row in self._rows_with(key):
            spelled = self._lemmas[row].lower().split("|")
            numbers = self._senses[row].split("|")
            ranked = zip(spelled, numbers, strict=True)
            found += [(int(rank), self.wnids[row]) for name, rank in ranked if name == key]
        if not found:
            lemmas = dict.fromkeys(self._lemma_line.replace("|", " ").split())
            near = difflib.get_close_matches(key, lemmas, n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise TaxonomyError(f"{lemma!r} is not a noun of WordNet 3.0{hint}")
        return list(dict.fromkeys(wnid for _, wnid in sorted(found)))

    def find(self, word: str) -> str:
        """Return the wnid for a wnid, a sense name such as ``dog.n.01``, or a one-sense lemma."""
        if re.fullmatch(r"n\d{8}", word):
            return self.wnids[self._find(word)]
        named = re.fullmatch(r"(.+)\.n\.(\d+)", word)
        if named:
            senses, number = self.senses(named[1]), int(named[2])
            if not 1 <= number <= len(senses):
                raise TaxonomyError(
                    f"{word!r}: {named[1]!r} has {len(senses)} noun senses, from 01 up"
                )
            return senses[number - 1]
        senses = self.senses(word)
        if len(senses) > 1:
            options = ", ".join(f"{self.sense_name(s)} ({s})" for s in senses[:6])
            raise TaxonomyError(f"{word!r} has {len(senses)} noun senses; choose one of {options}")
        return senses[0]


@cache
def wordnet() -> WordNet:
    """Return WordNet 3.0's nouns from the table inside the package (read once)."""
    packed = (files("fedgrain.taxonomy") / "resources" / "wordnet-nouns.xz").read_bytes()
    return WordNet(lzma.decompress(packed).decode())


def full_taxonomy(
    wnids: Sequence[str],
    root: str = "physical_entity",
    *,
    names: Mapping[str, str] | None = None,
    features: NDArray[np.floating] | None = None,
) -> Taxonomy:
    """Build H_full over the given classes: one path per class, single children contracted.

    ``root`` is a wnid, a sense name or a lemma with one sense. ``names`` (wnid -> name) replaces
    WordNet's names. Paths are chosen by the longest-path rule or, if class-mean image ``features``
    [classes, dims] are given in the order of ``wnids``, so that the tree agrees with the images.
    """
    nouns = wordnet()
    classes = [nouns.find(wnid) for wnid in wnids]
    _check_distinct(classes, nouns)
    top = nouns.find(root)
    parents_of = _hypernym_graph(nouns, classes, top)
    _check_root(parents_of, classes, top, nouns)

    def tree_of(fixed: Mapping[str, str]) -> Taxonomy:
        edges = tree_edges(fixed, classes)
        shown = {node: nouns.name(node) for node in [top, *(child for _, child in edges)]}
        return Taxonomy.from_edges(edges, {**shown, **(names or {})}, root=top)

    if features is None:
        fixed = choose_parents(parents_of, classes, top)
    else:
        if len(features) != len(classes):
            raise TaxonomyError(
                f"{len(features)} rows of features for {len(classes)} classes; give one per class"
            )
        fixed = choose_parents_by_images(parents_of, classes, top, np.asarray(features), tree_of)
    tree = tree_of(fixed)
    _check_no_class_above(tree, classes)
    return tree.contract_single_children()


def _hypernym_graph(nouns: WordNet, classes: Sequence[str], root: str) -> dict[str, list[str]]:
    """Return the hypernyms of the classes and all nodes above them, with the method's changes."""
    graph: dict[str, list[str]] = {}
    pending = list(classes)
    while pending:
        node = pending.pop()
        if node not in graph:
            above = list(_REHUNG.get(node, ())) or nouns.hypernyms(node)
            graph[node] = [] if node == root else above
            pending.extend(graph[node])
    return graph


def _check_distinct(classes: Sequence[str], nouns: WordNet) -> None:
    if not classes:
        raise TaxonomyError("the list of classes is empty; give at least one wnid")
    first: dict[str, int] = {}
    for number, wnid in enumerate(classes, start=1):
        if wnid in first:
            raise TaxonomyError(
                f"class {number} is a duplicate of class {first[wnid]}: {wnid} ({nouns.name(wnid)})"
            )
        first[wnid] = number


def _check_root(
    graph: Mapping[str, Sequence[str]], classes: Sequence[str], root: str, nouns: WordNet
) -> None:
    for wnid in classes:
        above = ancestors_upwards(graph, wnid)
        if root not in above:
            tops = [nouns.sense_name(node) for node in above if not graph[node]]
            raise TaxonomyError(
                f"class {wnid} ({nouns.name(wnid)}) does not reach the root "
                f"{nouns.sense_name(root)}; use the root {' or '.join(tops)}, which contains it"
                f"{' and every noun' if 'entity.n.01' in tops else ''}"
            )


def _check_no_class_above(tree: Taxonomy, classes: Sequence[str]) -> None:
    wanted = set(classes)  # used only for membership tests
    for wnid in classes:
        for node in tree.path(tree.index(wnid))[:-1]:
            upper = tree.ids[node]
            if upper in wanted:
                raise TaxonomyError(
                    f"class {upper} ({tree.names[node]}) is above class {wnid} "
                    f"({tree.names[tree.index(wnid)]}); remove one of them or use finer classes"
                )

"""Turn a graph whose classes have several parents into a tree, and report what was dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy.edges import MAX_DEPTH, too_deep
from fedgrain.taxonomy.paths import choose_all_parents, longest_distances, tree_edges
from fedgrain.taxonomy.tree import Taxonomy


@dataclass(frozen=True)
class SettledGraph:
    """The tree made from a graph. It has every node, each with one parent, and what was dropped."""

    taxonomy: Taxonomy
    became_leaves: tuple[str, ...]  # ids of nodes whose children all got other parents
    dropped_edges: tuple[tuple[str, str], ...]  # (parent, child), in the order they were given


def from_dag(
    edges: Iterable[tuple[str, str]],
    names: Mapping[str, str] | None = None,
    *,
    root: str | None = None,
    where: Sequence[str] | None = None,
) -> Taxonomy:
    """Return the tree of :func:`settle_dag`, for a graph whose nodes may have several parents."""
    return settle_dag(edges, names, root=root, where=where).taxonomy


def settle_dag(
    edges: Iterable[tuple[str, str]],
    names: Mapping[str, str] | None = None,
    *,
    root: str | None = None,
    where: Sequence[str] | None = None,
) -> SettledGraph:
    """Turn a directed acyclic graph into a tree by the path rule of section 2.

    Returns the tree and what was dropped. The rule goes through the nodes without children in the
    order they first appear; a node's parents rank in the order of their edges. A node whose
    children all got other parents may carry labels, so it stays as a leaf. Nodes with a single
    child stay. ``root`` must be the only node without parents.
    """
    listed = list(edges)
    parents_of = _parents_of(listed, where)
    inner = dict.fromkeys(parent for parent, _ in listed)
    top = _top(parents_of, inner, root)
    classes = [child for child in parents_of if child not in inner]
    distance = longest_distances(parents_of, classes, top)
    deep = next((node for node in parents_of if distance[node] > MAX_DEPTH), None)
    if deep is not None:
        raise TaxonomyError(too_deep(deep, max(distance.values())))
    fixed, stranded = choose_all_parents(parents_of, classes, top)
    kept = tree_edges(fixed, [*classes, *stranded])
    chosen = set(kept)  # used only for membership tests
    dropped = tuple(edge for edge in listed if edge not in chosen)
    return SettledGraph(Taxonomy.from_edges(kept, names, root=top), tuple(stranded), dropped)


def _parents_of(
    edges: Sequence[tuple[str, str]], where: Sequence[str] | None
) -> dict[str, list[str]]:
    """Map each child to its parents; refuse an edge given twice."""
    parents_of: dict[str, dict[str, None]] = {}
    for number, (parent, child) in enumerate(edges):
        above = parents_of.setdefault(child, {})
        if parent in above:
            place = where[number] if where else f"edge {number + 1}"
            raise TaxonomyError(f"{place}: duplicate edge from {parent!r} to {child!r}; remove it")
        above[parent] = None
    return {child: list(above) for child, above in parents_of.items()}


def _top(parents_of: dict[str, list[str]], inner: Mapping[str, None], root: str | None) -> str:
    """Return the one node without parents; refuse several, cycles, and a root that has parents."""
    if root in parents_of:
        raise TaxonomyError(
            f"{root!r} is under {parents_of[root][0]!r}, but is also given as the root; "
            "remove one of the two"
        )
    named = inner if root is None else {**inner, root: None}
    tops = [node for node in named if node not in parents_of]
    _refuse_cycle(parents_of)
    if len(tops) != 1:
        raise TaxonomyError(
            f"the graph has {len(tops)} roots ({', '.join(map(repr, tops[:3]))}); "
            "give all but one of them a parent"
        )
    return tops[0]


def _refuse_cycle(parents_of: dict[str, list[str]]) -> None:
    """Raise for a graph with a cycle (Kahn's algorithm from the top)."""
    waiting = {child: len(above) for child, above in parents_of.items()}
    children: dict[str, list[str]] = {}
    for child, above in parents_of.items():
        for parent in above:
            children.setdefault(parent, []).append(child)
    ready = [node for node in children if node not in waiting]
    for node in ready:
        for child in children.get(node, ()):
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    stuck = [node for node, count in waiting.items() if count]
    if stuck:
        raise TaxonomyError(
            f"the graph has a cycle through or above {stuck[0]!r}; remove one of its edges"
        )

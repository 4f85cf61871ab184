"""Check that a list of edges is a tree, with errors that say where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedgrain.errors import TaxonomyError

MAX_DEPTH = 500  # the most levels below the root that files and coarsening accept


def too_deep(node: str, depth: int) -> str:
    """Return the message for a tree that is too deep for coarsening and heads."""
    return (
        f"the tree is {depth:,} levels deep, but only {MAX_DEPTH} are allowed, and {node!r} is "
        "deeper; leave out classes with a single child, or check for rows chained by mistake"
    )


def single_parents(
    edges: Sequence[tuple[str, str]], where: Sequence[str]
) -> dict[str, tuple[str, int]]:
    """Map each child to its parent and its edge; refuse duplicates and second parents."""
    parent_of: dict[str, tuple[str, int]] = {}
    for number, (parent, child) in enumerate(edges):
        if child in parent_of:
            other, first = parent_of[child]
            if other == parent:
                raise TaxonomyError(
                    f"{where[number]}: duplicate of {where[first]}: {child!r} under {parent!r}; "
                    "remove one of them"
                )
            raise TaxonomyError(
                f"{where[number]}: {child!r} has two parents, {parent!r} here and {other!r} "
                f"at {where[first]}; keep one, or use the path rule (from_dag, --dag)"
            )
        parent_of[child] = parent, number
    return parent_of


def single_root(
    edges: Sequence[tuple[str, str]],
    where: Sequence[str],
    parent_of: Mapping[str, tuple[str, int]],
    root: str | None,
) -> str:
    """Return the one node without a parent; refuse several roots and cycles."""
    settled: set[str] = set()  # nodes known to reach a root; used only for membership tests
    for start in parent_of:
        walk: dict[str, None] = {}
        node = start
        while node in parent_of and node not in settled:
            if node in walk:
                cycle = list(walk)[list(walk).index(node) :]
                last = max(parent_of[member][1] for member in cycle)
                shown = " -> ".join([*cycle[:6], *(["..."] if len(cycle) > 6 else []), node])
                raise TaxonomyError(
                    f"{where[last]}: the tree has a cycle, from child to parent {shown}; "
                    "remove one of its edges"
                )
            walk[node] = None
            node = parent_of[node][0]
        settled.update(walk)
    tops: dict[str, int] = {}
    for number, (parent, _) in enumerate(edges):
        if parent not in parent_of:
            tops.setdefault(parent, number)
    if root is not None:
        if root in parent_of:
            above, number = parent_of[root]
            raise TaxonomyError(
                f"{where[number]}: {root!r} is under {above!r}, but is also given as the root; "
                "remove one of the two"
            )
        tops.setdefault(root, -1)
    if not tops:
        raise TaxonomyError("the tree is empty: give at least one edge from a parent to a child")
    if len(tops) > 1:
        (one, first), (two, second) = list(tops.items())[:2]
        place = where[max(first, second)]
        raise TaxonomyError(
            f"{place}: the tree has {len(tops)} roots, {one!r} and {two!r}"
            f"{' among them' if len(tops) > 2 else ''}; give all but one of them a parent"
        )
    return next(iter(tops))

"""Depth-first order, the order of a taxonomy's nodes: a subtree is a slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import TaxonomyError

IntArray = NDArray[np.int32]


def depth_first(children: Sequence[list[int]]) -> list[int]:
    """List all nodes below 0, and 0, in depth-first order; children are given last one first."""
    order: list[int] = []
    stack = [0]
    while stack:
        node = stack.pop()
        order.append(node)
        stack += children[node]
    return order


def depth_first_ids(
    root: str, parent_of: Mapping[str, tuple[str, int]]
) -> tuple[list[str], list[int]]:
    """Return ids in depth-first order, children by id, and the number of each one's parent.

    ``parent_of`` is what :func:`fedgrain.taxonomy.edges.single_parents` returns.
    """
    children: dict[str, list[str]] = {}
    for child, (parent, _) in parent_of.items():
        children.setdefault(parent, []).append(child)
    ids: list[str] = []
    parents: list[int] = []
    stack = [(root, -1)]
    while stack:
        node, parent_number = stack.pop()
        number = len(ids)
        ids.append(node)
        parents.append(parent_number)
        below = children.get(node)
        if below is not None:
            below.sort(reverse=True)
            stack.extend((child, number) for child in below)
    return ids, parents


def depth_and_subtree_end(parents: IntArray) -> tuple[IntArray, IntArray]:
    """Return the depth of every node and where its subtree ends; refuse any other order."""
    listed = parents.tolist()
    depth = [0] * len(listed)
    sizes = [1] * len(listed)
    for node in range(1, len(listed)):
        depth[node] = depth[listed[node]] + 1
    for node in range(len(listed) - 1, 0, -1):
        sizes[listed[node]] += sizes[node]
    end = np.arange(len(listed), dtype=np.int32) + np.array(sizes, dtype=np.int32)
    # slices as long as the subtrees, each inside its parent's: then they are the subtrees
    if np.any(end[1:] > end[parents[1:]]):
        raise TaxonomyError("nodes must come in depth-first order; use Taxonomy.from_edges")
    return np.array(depth, dtype=np.int32), end

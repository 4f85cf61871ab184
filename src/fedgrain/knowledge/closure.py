"""Knowledge is closed upwards: who knows the kite knows the bird (method, section 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy.tree import Taxonomy

BoolArray = NDArray[np.bool_]


def counts_below(taxonomy: Taxonomy, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum counts [rows, nodes] over each node's subtree, itself included."""
    running = np.zeros((len(counts), len(taxonomy) + 1), dtype=np.int64)
    np.cumsum(counts, axis=1, out=running[:, 1:])
    return running[:, taxonomy.subtree_end] - running[:, :-1]  # [rows, nodes]


def paths_to_leaves(taxonomy: Taxonomy, known_leaves: BoolArray) -> BoolArray:
    """Return all nodes on the paths to the given leaves: [rows, leaves] to [rows, nodes]."""
    counts = np.zeros((len(known_leaves), len(taxonomy)), dtype=np.int64)
    counts[:, taxonomy.leaves] = known_leaves
    return counts_below(taxonomy, counts) > 0


def close_upwards(taxonomy: Taxonomy, known: BoolArray) -> BoolArray:
    """Drop every node whose parent is unknown, from the root down: [rows, nodes]."""
    closed = known.copy()
    for depth in range(1, int(taxonomy.depth.max()) + 1):
        level = np.flatnonzero(taxonomy.depth == depth)
        closed[:, level] &= closed[:, taxonomy.parents[level]]
    return closed

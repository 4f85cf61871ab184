"""Lowest common ancestors and Wu-Palmer similarity on a tree of arrays (method, section 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]


def lca_depth_matrix(parents: IntArray, depth: IntArray, subtree_end: IntArray) -> IntArray:
    """Depth of the lowest common ancestor of all pairs, for nodes in depth-first order."""
    count = len(parents)
    table = np.zeros((count, count), dtype=np.int32)
    for node in range(1, count):  # a row is the parent's row but for the node's own subtree
        table[node] = table[parents[node]]
        table[node, node : subtree_end[node]] = depth[node]
    return table


def lca_depth_table(
    parents: IntArray, depth: IntArray, subtree_end: IntArray, rows: IntArray, columns: IntArray
) -> IntArray:
    """Depth of the lowest common ancestor of every row's node with every column's: [rows, columns].

    ``columns`` are ascending, so those below an ancestor of the row's node are a slice.
    """
    first = np.searchsorted(columns, np.arange(len(parents))).tolist()
    end = np.searchsorted(columns, subtree_end).tolist()
    above, depths = parents.tolist(), depth.tolist()
    table = np.zeros((len(rows), len(columns)), dtype=np.int32)
    for row, node in zip(table, rows.tolist(), strict=True):
        upwards = []
        while node > 0:
            upwards.append(node)
            node = above[node]
        for ancestor in reversed(upwards):
            row[first[ancestor] : end[ancestor]] = depths[ancestor]
    return table


def wu_palmer(
    lca_depth: NDArray[np.float64], depth_a: NDArray[np.float64], depth_b: NDArray[np.float64]
) -> NDArray[np.float64]:
    """2 d(lca) / (d(a) + d(b)); two roots at depth 0 are the same node and score 1."""
    total = depth_a + depth_b
    same_root = total == 0
    if not same_root.any():
        return 2.0 * lca_depth / total
    return np.where(same_root, 1.0, 2.0 * lca_depth / np.where(same_root, 1.0, total))


def wu_palmer_table(
    lca_depths: IntArray, row_depths: IntArray, column_depths: IntArray, *, root_depth: int
) -> NDArray[np.float64]:
    """Similarity [rows, columns], the root's depth counted as ``root_depth`` (0 or 1)."""
    if root_depth not in (0, 1):
        raise ValueError(f"root_depth is 0 (metrics) or 1 (similarity matrix W), not {root_depth}")
    rows, columns = (side.astype(np.float64) + root_depth for side in (row_depths, column_depths))
    return wu_palmer(lca_depths.astype(np.float64) + root_depth, rows[:, None], columns[None, :])

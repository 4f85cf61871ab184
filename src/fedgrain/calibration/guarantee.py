"""The most specific node that holds the truth with a guaranteed probability (section 12)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedgrain.calibration.score_counts import cell_of
from fedgrain.scoring.metrics import Nodes, Values
from fedgrain.scoring.specificity import checked_table
from fedgrain.taxonomy.tree import Taxonomy

Table = Tensor | NDArray[Any]  # log P [images, nodes]


def greedy_path(log_probs: Table, tree: Taxonomy) -> Nodes:
    """Return the path [images, depths] from the root to the heaviest child, again and again.

    Entries below its leaf are -1. Every node with P > 0.5 lies on it.
    """
    table = checked_table(log_probs, tree)
    path = np.full((len(table), len(tree.levels)), -1, dtype=np.int64)
    path[:, 0] = 0
    for depth in range(1, path.shape[1]):
        above = path[:, depth - 1]
        for node in np.unique(above[above >= 0]).tolist():
            children = tree.children(node)
            if len(children):
                rows = np.flatnonzero(above == node)
                path[rows, depth] = children[table[np.ix_(rows, children)].argmax(1)]
    return path


def path_probabilities(log_probs: Table, path: Nodes, tree: Taxonomy) -> Values:
    """Return P along paths [images, depths], never rising; 0 below the end of a path."""
    table = checked_table(log_probs, tree)
    logs = np.take_along_axis(table, np.maximum(path, 0), axis=1).astype(np.float64)
    found = np.where(path < 0, 0.0, np.exp(np.minimum(logs, 0.0)))
    found[:, 0] = 1.0
    return np.asarray(np.minimum.accumulate(found, axis=1))


def node_scores(log_probs: Table, labels: Nodes, tree: Taxonomy) -> Values:
    """Return the score of each label: P of the first node of the greedy path that excludes it.

    A node of the path holds the truth if its P is above the score; 0 if the whole path does. Of a
    coarse label the worst leaf below it counts, which is exact unless the label is on the path.
    """
    path = greedy_path(log_probs, tree)
    along = path_probabilities(log_probs, path, tree)
    same = (tree.ancestor_table[labels] == path) & (path >= 0)
    depth = same.sum(1) - 1  # of the last node that holds the label
    meeting = path[np.arange(len(path)), depth]
    on_path = meeting == labels
    fork = tree.past_single_children()[labels]  # where leaves below the label part
    depth = np.where(on_path, tree.depth[fork], depth)
    along = np.concatenate([along, np.zeros((len(along), 1))], axis=1)
    return np.asarray(along[np.arange(len(along)), depth + 1])


def node_cells(log_probs: Table, labels: Nodes, tree: Taxonomy) -> NDArray[np.int64]:
    """Return the cell of the grid that counts each score of :func:`node_scores`."""
    return cell_of(node_scores(log_probs, labels, tree), strictly=True)


def guaranteed_nodes(
    log_probs: Table,
    tree: Taxonomy,
    threshold: float,
    allowed: NDArray[np.bool_] | None = None,
) -> Nodes:
    """Return the deepest node of the greedy path with P >= ``threshold``.

    With ``allowed`` leaves, [leaves] or [images, leaves], it is the most specific node over
    the allowed leaves below that one; where there are none, over those of the nearest node above.
    ``log_probs`` are those before any restriction.
    """
    path = greedy_path(log_probs, tree)
    nodes = deepest_safe(path, path_probabilities(log_probs, path, tree), threshold)
    if allowed is None:
        return nodes
    rows = np.arange(len(path))
    possible = np.broadcast_to(allowed, (len(path), len(tree.leaves)))
    running = np.zeros((len(path), len(tree.leaves) + 1), np.int64)
    np.cumsum(possible, axis=1, out=running[:, 1:])
    first, end = tree.leaf_ranges
    while True:
        before, inside = running[rows, first[nodes]], running[rows, end[nodes]]
        empty = (inside == before) & (nodes > 0)
        if not empty.any():
            return over_leaves(possible, running, nodes, tree)
        nodes = np.where(empty, tree.parents[nodes], nodes)


def deepest_safe(path: Nodes, along: Values, threshold: float) -> Nodes:
    """Return the deepest node of each path [images, depths] whose P along it is high enough."""
    depth = np.maximum(((along >= threshold) & (path >= 0)).sum(1) - 1, 0)
    return np.asarray(path[np.arange(len(path)), depth])


def over_leaves(possible: NDArray[np.bool_], running: Nodes, nodes: Nodes, tree: Taxonomy) -> Nodes:
    """Return the most specific node over the possible leaves below each node."""
    first, end = tree.leaf_ranges
    rows = np.arange(len(nodes))
    count = running[rows, end[nodes]]
    left = (running[:, 1:] == (running[rows, first[nodes]] + 1)[:, None]).argmax(1)
    right = (running[:, 1:] == count[:, None]).argmax(1)
    return tree.lca(tree.leaves[left], tree.leaves[right])

"""Sets of nodes that hold the truth with a guaranteed probability (section 12).

Leaves are taken in the order of a walk through the tree that visits the heaviest child first. On a
flat tree these are the adaptive prediction sets of Romano, Sesia and Candes (NeurIPS 2020), without
randomisation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedgrain.calibration.guarantee import Table
from fedgrain.calibration.score_counts import cell_of
from fedgrain.scoring.metrics import Nodes, Values
from fedgrain.scoring.specificity import checked_table
from fedgrain.taxonomy.tree import Taxonomy


def walked_mass(log_probs: Table, tree: Taxonomy) -> Values:
    """Return P of all that is walked through up to each leaf, itself included [images, leaves]."""
    chance = np.exp(np.minimum(checked_table(log_probs, tree).astype(np.float64), 0.0))
    start = np.zeros_like(chance)
    for level in tree.levels:
        for node in level.tolist():
            children = tree.children(node)
            if not len(children):
                continue
            own = chance[:, children]
            order = np.argsort(-own, axis=1, kind="stable")
            heavier = np.cumsum(np.take_along_axis(own, order, 1), axis=1)
            heavier -= np.take_along_axis(own, order, 1)
            before = np.empty_like(heavier)
            np.put_along_axis(before, order, heavier, 1)
            start[:, children] = start[:, [node]] + before
    return np.asarray((start + chance)[:, tree.leaves])


def set_scores(log_probs: Table, labels: Nodes, tree: Taxonomy) -> Values:
    """Return the score of each label: the mass walked through until its last leaf is taken."""
    walked = walked_mass(log_probs, tree)
    first, end = tree.leaf_ranges
    found = np.empty(len(labels))
    for label in np.unique(labels).tolist():
        rows = np.flatnonzero(labels == label)
        found[rows] = walked[rows, first[label] : end[label]].max(1)
    return found


def set_cells(log_probs: Table, labels: Nodes, tree: Taxonomy) -> NDArray[np.int64]:
    """Return the cell of the grid that counts each score of :func:`set_scores`."""
    return cell_of(set_scores(log_probs, labels, tree), strictly=False)


def leaves_taken(log_probs: Table, tree: Taxonomy, threshold: float) -> NDArray[np.bool_]:
    """Mask the leaves [images, leaves] until whose end at most ``threshold`` is walked through."""
    return np.asarray(walked_mass(log_probs, tree) <= threshold)


def guaranteed_sets(
    log_probs: Table,
    tree: Taxonomy,
    threshold: float,
    allowed: NDArray[np.bool_] | None = None,
) -> list[Nodes]:
    """Return a set of nodes for each image: as few as hold exactly the leaves that are taken.

    A set is never empty: with no leaf inside, the first leaf of the walk that is allowed is taken.
    """
    walked = walked_mass(log_probs, tree)
    possible = np.ones(len(tree.leaves), np.bool_) if allowed is None else allowed
    taken = (walked <= threshold) & possible
    first = np.where(possible, walked, np.inf).argmin(1)
    empty = np.flatnonzero(~taken.any(1))
    taken[empty, first[empty]] = True
    return nodes_over(taken, np.broadcast_to(possible, taken.shape), tree)


def nodes_over(
    taken: NDArray[np.bool_], possible: NDArray[np.bool_], tree: Taxonomy
) -> list[Nodes]:
    """Return for each row as few nodes as hold exactly the taken ones of the possible leaves."""
    inside, of = (_below(mask, tree) for mask in (taken, possible))
    full = (inside == of) & (of > 0)
    top = full.copy()
    top[:, 1:] &= ~full[:, tree.parents[1:]]
    first, end = tree.leaf_ranges
    found = []
    for row, mask in zip(top, possible, strict=True):
        ends = [
            np.flatnonzero(mask[first[v] : end[v]])[[0, -1]] + first[v] for v in np.flatnonzero(row)
        ]
        left, right = (np.array([pair[side] for pair in ends]) for side in (0, 1))
        found.append(tree.lca(tree.leaves[left], tree.leaves[right]))
    return found


def _below(mask: NDArray[np.bool_], tree: Taxonomy) -> NDArray[np.int64]:
    """Count the marked leaves under each node [images, nodes]."""
    counts = np.zeros((len(mask), len(tree)), np.int64)
    counts[:, tree.leaves] = mask
    return tree.sums_below(counts)

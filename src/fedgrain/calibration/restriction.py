"""What is possible here: excluded leaves have probability 0, the others add up to 1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.calibration.guarantee import Table
from fedgrain.errors import PredictionError
from fedgrain.scoring.specificity import checked_table
from fedgrain.taxonomy.tree import Taxonomy


def restricted(
    log_probs: Table, tree: Taxonomy, allowed: NDArray[np.bool_]
) -> NDArray[np.floating[Any]]:
    """Return log P of all nodes given that the truth is an allowed leaf.

    ``allowed`` is [leaves] or [images, leaves]. If everything is allowed, the table is returned as
    it is. Where P of all allowed leaves is 0, they share alike.
    """
    table = checked_table(log_probs, tree)
    if allowed.all():
        return table
    if not allowed.any(axis=-1).all():
        raise PredictionError("nothing is possible: every leaf is excluded; allow at least one")
    leaves = np.where(allowed, table[:, tree.leaves].astype(np.float64), -np.inf)
    top = leaves.max(1, keepdims=True)
    leaves = np.where(np.isneginf(top) & allowed, 0.0, leaves)
    chance = np.exp(leaves - np.where(np.isneginf(top), 0.0, top))
    own = np.zeros((len(table), len(tree)))
    own[:, tree.leaves] = chance / chance.sum(1, keepdims=True)
    sums = own.copy()
    for level in tree.levels[:0:-1]:  # not by running sums: excluded must be exactly 0
        np.add.at(sums.T, tree.parents[level], sums.T[level])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.minimum(sums, 1.0)))


def leaves_below(nodes: Iterable[int], tree: Taxonomy) -> NDArray[np.bool_]:
    """Mask the leaves [leaves] at or below the given nodes."""
    first, end = tree.leaf_ranges
    mask = np.zeros(len(tree.leaves), np.bool_)
    for node in nodes:
        mask[first[node] : end[node]] = True
    return mask

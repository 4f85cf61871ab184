"""Which of the nodes are more specific than others, and the likeliest among equals."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedgrain.errors import PredictionError
from fedgrain.heads.base import at_least_float32
from fedgrain.scoring.metrics import Nodes, Values
from fedgrain.taxonomy.tree import Taxonomy


def best_by_specificity(
    table: NDArray[np.floating[Any]], taxonomy: Taxonomy
) -> tuple[Values, Nodes]:
    """Return the highest P, and its node, among the nodes that are equally specific.

    Groups [samples, groups] go from the most specific to the root, whose P is 1; among equal P the
    first id.
    """
    nodes, starts = _by_specificity(taxonomy)
    ordered = table[:, nodes]
    best = np.empty((len(table), len(starts)))
    node = np.empty((len(table), len(starts)), dtype=np.int64)
    rows = np.arange(len(table))
    for group, (start, end) in enumerate(zip(starts, [*starts[1:], len(nodes)], strict=True)):
        found = start + ordered[:, start:end].argmax(1)
        node[:, group] = nodes[found]
        best[:, group] = ordered[rows, found]
    best = rounded(np.exp(np.minimum(best, 0.0)))
    best[:, -1] = 1.0
    return best, node


@lru_cache(maxsize=8)
def _by_specificity(taxonomy: Taxonomy) -> tuple[Nodes, list[int]]:
    """Return the nodes, most specific first, then by id; and where each group of equals starts.

    A node over the same leaves as its only child is less specific than that child. By how many
    only children there are below it, and not by depth: between a leaf at depth 3 and one at depth 5
    P decides.
    """
    leaves = taxonomy.leaf_counts
    above_fork = taxonomy.past_single_children() - np.arange(len(taxonomy))
    by_id = np.empty(len(taxonomy), dtype=np.int64)
    by_id[sorted(range(len(taxonomy)), key=taxonomy.ids.__getitem__)] = np.arange(len(taxonomy))
    nodes = np.lexsort((by_id, above_fork, leaves))
    new = (np.diff(leaves[nodes], prepend=-1) != 0) | (np.diff(above_fork[nodes], prepend=-1) != 0)
    nodes.flags.writeable = False
    return nodes, np.flatnonzero(new).tolist()


def specificity(taxonomy: Taxonomy) -> Nodes:
    """Return how general each node is [nodes]: 0 for the most specific; the root has the most."""
    nodes, starts = _by_specificity(taxonomy)
    found = np.empty(len(taxonomy), dtype=np.int64)
    found[nodes] = np.searchsorted(starts, np.arange(len(nodes)), side="right") - 1
    return found


def rounded(probability: Values | float) -> Values:
    """Round to the 24 binary digits of float32, with the range of float64.

    A table of logarithms holds a P of 0.5 only nearly, so that comparing exact numbers would let
    the last bit decide; and what the curve calls a threshold must be one for `predict` too.
    """
    mantissa, exponent = np.frexp(np.asarray(probability, dtype=np.float64))
    return np.asarray(np.ldexp(np.rint(mantissa * 2.0**24), exponent - 24))


def checked_table(
    log_probs: Tensor | NDArray[Any], taxonomy: Taxonomy
) -> NDArray[np.floating[Any]]:
    """Check log-probabilities and return them in float32 or float64."""
    if isinstance(log_probs, Tensor):
        log_probs = at_least_float32(log_probs.detach()).cpu().numpy()
    table = np.asarray(log_probs)
    if table.dtype not in (np.float32, np.float64):
        table = table.astype(np.float32 if table.dtype.itemsize <= 2 else np.float64)
    if table.ndim != 2 or table.shape[1] != len(taxonomy):
        raise PredictionError(
            f"log-probabilities must be [samples, {len(taxonomy)} nodes], not {list(table.shape)}"
        )
    broken = np.isnan(table).any(1)
    if broken.any():
        raise PredictionError(
            f"sample {int(np.flatnonzero(broken)[0])} has a probability that is "
            "not a number: training diverged; lower the learning rate"
        )
    return table

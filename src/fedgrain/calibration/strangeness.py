"""How little an image looks like any of the classes (section 12).

The model is asked at every depth of the tree: an image of none of its classes is often uncertain
already near the root. Measured against the largest probability (Hendrycks and Gimpel, ICLR 2017),
the energy (Liu et al., NeurIPS 2020) and the entropy of the leaves in docs/results/trust.md.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedgrain.calibration.guarantee import Table
from fedgrain.calibration.score_counts import cell_of
from fedgrain.scoring.metrics import Nodes, Values
from fedgrain.scoring.specificity import checked_table
from fedgrain.taxonomy.tree import Taxonomy

_LEAST = 1e-6  # a depth that is certain must not hide all others


def strangeness(log_probs: Table, tree: Taxonomy) -> Values:
    """Return the geometric mean, over all depths, of the entropy there; from 0 to 1.

    The entropy of a depth is that of the nodes at it, and of the leaves above it, as a share of
    what it is when all are equally likely.
    """
    table = checked_table(log_probs, tree)
    logs = [np.log(np.maximum(_entropy(table[:, nodes]), _LEAST)) for nodes in _cuts(tree)]
    return np.asarray(np.exp(np.mean(logs, axis=0))) if logs else np.zeros(len(table))


def strange_cells(log_probs: Table, tree: Taxonomy) -> NDArray[np.int64]:
    """Return the cell of the grid that counts each image."""
    return cell_of(strangeness(log_probs, tree), strictly=False)


def _entropy(logs: NDArray[np.floating]) -> Values:
    """Return the entropy of shares [images, nodes], given as logarithms, from 0 to 1."""
    own = logs.astype(np.float64)
    chance = np.exp(own - own.max(1, keepdims=True))
    chance /= chance.sum(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(chance > 0, -chance * np.log(chance), 0.0)
    return np.asarray(each.sum(1) / np.log(own.shape[1]))


@lru_cache(maxsize=4)
def _cuts(tree: Taxonomy) -> tuple[Nodes, ...]:
    """Return for each depth the nodes there and the leaves above it; where there are several."""
    table = tree.ancestor_table[tree.leaves]  # [leaves, depths]
    cuts = [np.unique(np.where(at >= 0, at, tree.leaves)) for at in table.T[1:]]
    return tuple(nodes for nodes in cuts if len(nodes) > 1)

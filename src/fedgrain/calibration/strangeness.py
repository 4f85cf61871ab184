"""How little an image looks like any of the classes: the entropy of its leaves (section 12)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedgrain.calibration.guarantee import Table
from fedgrain.calibration.score_counts import cell_of
from fedgrain.scoring.metrics import Values
from fedgrain.scoring.specificity import checked_table
from fedgrain.taxonomy.tree import Taxonomy


def strangeness(log_probs: Table, tree: Taxonomy) -> Values:
    """Return the entropy over the leaves: 0 if one is certain, 1 if all are equally likely."""
    leaves = checked_table(log_probs, tree)[:, tree.leaves].astype(np.float64)
    leaves = leaves - leaves.max(1, keepdims=True)
    chance = np.exp(leaves)
    chance /= chance.sum(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(chance > 0, -chance * np.log(chance), 0.0)
    return np.asarray(each.sum(1) / max(np.log(len(tree.leaves)), 1e-9))


def strange_cells(log_probs: Table, tree: Taxonomy) -> NDArray[np.int64]:
    """Return the cell of the grid that counts each image."""
    return cell_of(strangeness(log_probs, tree), strictly=False)

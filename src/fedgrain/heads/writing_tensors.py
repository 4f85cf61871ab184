"""How likely a labeller writes a label for each leaf, as tensors (method, section 11)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgrain.errors import HeadError
from fedgrain.heads.tree_sums import TreeSums
from fedgrain.knowledge.correspondence import Correspondence
from fedgrain.taxonomy.tree import Taxonomy


class LabelWeights(nn.Module, ABC):
    """What a label says about each leaf."""

    @abstractmethod
    def leaf_weights(self, sums: TreeSums, labels: Tensor) -> Tensor:
        """Return log T(label | leaf) [batch, leaves]."""


class WritingTensors(LabelWeights):
    """One labeller's T, ready for the likelihood of its labels.

    ``writes`` is [leaves, depths]: how often the labeller writes a leaf's ancestor at each depth.
    A label that T gives to no leaf counts as marginal (weight 1 for all leaves under it).
    """

    log_weights: Tensor  # [depths, leaves]
    depth: Tensor  # [nodes]

    def __init__(self, taxonomy: Taxonomy, writes: NDArray[np.float64]) -> None:
        super().__init__()
        shape = (len(taxonomy.leaves), len(taxonomy.levels))
        if writes.shape != shape or not bool(np.all(writes >= 0)):
            raise HeadError(
                f"how a labeller writes is an array {list(shape)} of shares, for each leaf and "
                f"depth, not one of shape {list(writes.shape)}"
            )
        with np.errstate(divide="ignore"):
            weights = np.log(_possible(taxonomy, writes)).astype(np.float32)
        self.register_buffer("log_weights", torch.tensor(weights.T), persistent=False)
        depth = taxonomy.depth.astype(np.int64)
        self.register_buffer("depth", torch.tensor(depth), persistent=False)

    def leaf_weights(self, sums: TreeSums, labels: Tensor) -> Tensor:
        """Return log T(label | leaf) [batch, leaves]; -inf for leaves not under the label."""
        weights = self.log_weights[self.depth[labels]]
        return weights.masked_fill(~sums.leaves_below(labels), -torch.inf)


class CorrespondenceTensors(LabelWeights):
    """A table of how often each label is written for each leaf, inside the tree or not.

    Labels that the table does not have, and those it gives to no leaf, count as marginal.
    """

    log_weights: Tensor  # [labels of the table, leaves]
    row: Tensor  # [nodes], of the table; -1 for other labels

    def __init__(self, taxonomy: Taxonomy, given: Correspondence) -> None:
        super().__init__()
        possible = given.table.any(axis=1)
        row = np.full(len(taxonomy), -1, dtype=np.int64)
        row[given.labels] = np.where(possible, np.arange(len(given.labels)), -1)
        self.register_buffer("row", torch.tensor(row), persistent=False)
        with np.errstate(divide="ignore"):
            weights = np.log(given.table).astype(np.float32)
        nothing = np.zeros((1, weights.shape[1]), np.float32)  # the last row, for -1
        both = torch.tensor(np.concatenate([weights, nothing]))
        self.register_buffer("log_weights", both, persistent=False)

    def leaf_weights(self, sums: TreeSums, labels: Tensor) -> Tensor:
        """Return log T(label | leaf) [batch, leaves]; -inf for leaves it is never written for."""
        rows = self.row[labels]
        elsewhere = (rows < 0)[:, None] & ~sums.leaves_below(labels)
        return self.log_weights[rows].masked_fill(elsewhere, -torch.inf)


def _possible(taxonomy: Taxonomy, writes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return T with weight 1 for the leaves under every label that is never written."""
    ancestors = taxonomy.ancestor_table[taxonomy.leaves]  # [leaves, depths], -1 below the leaf
    total = np.bincount(
        np.maximum(ancestors, 0).ravel(),
        weights=np.where(ancestors < 0, 0.0, writes).ravel(),
        minlength=len(taxonomy),
    )
    return np.where(total[ancestors] > 0, writes, 1.0)

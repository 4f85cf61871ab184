"""Calibration: whether 80% of the answers given with a probability of 0.8 are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgrain.errors import PredictionError
from fedgrain.scoring.metrics import Nodes, Values
from fedgrain.scoring.rules import predict
from fedgrain.taxonomy.tree import Taxonomy


@dataclass(frozen=True)
class Reliability:
    """Answers sorted into bins of probability; empty bins are left out."""

    low: Values  # [bins], where a bin begins; all are equally wide
    count: Nodes  # [bins], answers
    said: Values  # [bins], their mean probability
    right: Values  # [bins], the share of them that is right

    @property
    def samples(self) -> int:
        """How many answers there are in all."""
        return int(self.count.sum())

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of said and right, weighted by answers."""
        return float((np.abs(self.said - self.right) * self.count).sum() / self.samples)

    @property
    def too_sure(self) -> float:
        """Mean probability minus share of right answers; negative if the model is too careful."""
        return float(((self.said - self.right) * self.count).sum() / self.samples)


def reliability(probability: ArrayLike, right: ArrayLike, bins: int = 10) -> Reliability:
    """Sort answers by their probability into ``bins`` of equal width; 1 belongs to the last."""
    said, hits = np.asarray(probability, np.float64), np.asarray(right, np.bool_)
    if said.ndim != 1 or said.shape != hits.shape or not len(said):
        raise PredictionError(
            "calibration needs a probability and a right or wrong for each of some answers, "
            f"not arrays of shapes {list(said.shape)} and {list(hits.shape)}"
        )
    said = np.clip(said, 0.0, 1.0)  # the exponential of a logarithm may be a bit over 1
    which = np.minimum((said * bins).astype(np.int64), bins - 1)
    count = np.bincount(which, minlength=bins)
    used = np.flatnonzero(count)
    sums = (np.bincount(which, weights=values, minlength=bins)[used] for values in (said, hits))
    mean_said, mean_right = (total / count[used] for total in sums)
    return Reliability(used / bins, count[used], mean_said, mean_right)


def reliability_by_depth(
    log_probs: NDArray[np.floating[Any]], truth: Nodes, tree: Taxonomy, fewest: int = 20
) -> dict[int, Reliability]:
    """Return the reliability of the path to the likeliest leaf at each depth; truths are leaves."""
    leaves = predict(log_probs, tree)
    table, found = tree.ancestor_table, {}
    for depth in range(1, table.shape[1]):
        said, wanted = table[leaves, depth], table[truth, depth]
        there = np.flatnonzero(said >= 0)
        if len(there) >= fewest:
            chance = np.exp(np.asarray(log_probs[there, said[there]], np.float64))
            found[depth] = reliability(chance, said[there] == wanted[there])
    return found

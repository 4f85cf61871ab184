"""Counts of conformal scores on a fixed grid, per label: all that calibration needs (section 12).

Sites count, the server adds: no score of a single image leaves a site, and a guarantee for part of
the tree needs no new pass over images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgrain.errors import PredictionError
from fedgrain.taxonomy.tree import Taxonomy

# Equal steps of the logit: fine near 0 and near 1, where most probabilities are.
EDGES: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.arange(-16.0, 16.0 + 1 / 64, 1 / 32)))
EDGES.flags.writeable = False
CELLS = len(EDGES) + 1  # the last is for scores beyond the last edge
_ROUNDING = 1e-9  # 0.9 * 10 must not need 10 of 9


def cell_of(scores: ArrayLike, *, strictly: bool) -> NDArray[np.int64]:
    """Return the cell of each score: that of the first edge at least as large, or larger."""
    found = np.searchsorted(EDGES, np.asarray(scores), "right" if strictly else "left")
    return np.asarray(found, dtype=np.int64)


def fewest_images(guarantee: float) -> int:
    """Return how many calibration images a guarantee needs at least."""
    return math.ceil(guarantee / (1.0 - guarantee) - _ROUNDING)


def check_guarantee(guarantee: float) -> None:
    """Refuse a guarantee that nothing can meet."""
    if not 0.0 < guarantee < 1.0:
        raise PredictionError(f"a guarantee lies between 0 and 1, not {guarantee}")


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """How many images of each label have a score in each cell of the grid."""

    labels: NDArray[np.int64]  # [labels], nodes of H, ascending
    counts: NDArray[np.int64]  # [labels, cells]

    @classmethod
    def of(cls, labels: ArrayLike, cells: ArrayLike) -> ScoreCounts:
        """Count images, given the label and the cell of each."""
        found, row = np.unique(np.asarray(labels, np.int64), return_inverse=True)
        counts = np.zeros((len(found), CELLS), np.int64)
        np.add.at(counts, (row, np.asarray(cells, np.int64)), 1)
        return cls(found, counts)

    @classmethod
    def added(cls, parts: Sequence[ScoreCounts]) -> ScoreCounts:
        """Add the counts of several sites."""
        labels = np.unique(np.concatenate([np.empty(0, np.int64), *(p.labels for p in parts)]))
        counts = np.zeros((len(labels), CELLS), np.int64)
        for part in parts:
            counts[np.searchsorted(labels, part.labels)] += part.counts
        return cls(labels, counts)

    @property
    def images(self) -> int:
        """How many images were counted."""
        return int(self.counts.sum())

    def threshold(
        self, guarantee: float, tree: Taxonomy, allowed: NDArray[np.bool_] | None = None
    ) -> float:
        """Return the smallest score that covers a new image with the guaranteed probability.

        ``allowed`` [leaves] restricts the truths: only images whose label lies there count. One
        whose label is partly there counts if it is not covered, so whatever its truth is, the
        threshold is not too low. Infinite if only everything is safe enough.
        """
        check_guarantee(guarantee)
        sure, mixed = self._within(tree, allowed)
        covered = np.cumsum(self.counts[sure].sum(0))
        perhaps = self.counts[mixed].sum(0)
        images = covered[-1] + perhaps.sum() - np.cumsum(perhaps)  # that count, by threshold
        enough = covered >= np.ceil((images + 1) * guarantee - _ROUNDING)
        if not enough.any():
            where = "" if allowed is None else " of the classes that are possible here"
            raise PredictionError(
                f"a guarantee of {guarantee:g} needs at least {fewest_images(guarantee)} "
                f"calibration images{where}, but there are {int(covered[-1])}; ask for less, or "
                "calibrate with more: fedgrain calibrate RUN --manifest CSV"
            )
        return float(np.append(EDGES, np.inf)[int(enough.argmax())])

    def guarantee_of(
        self, probability: ArrayLike, tree: Taxonomy, allowed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the largest guarantee met by nodes of the greedy path with these P (0: none).

        ``allowed`` restricts the truths as in :meth:`threshold`.
        """
        sure, mixed = self._within(tree, allowed)
        below = np.concatenate(([0], np.cumsum(self.counts[sure].sum(0))))
        perhaps = np.concatenate(([0], np.cumsum(self.counts[mixed].sum(0))))
        cell = np.searchsorted(EDGES, np.asarray(probability, np.float64), "right")
        return np.asarray(below[cell] / (below[-1] + perhaps[-1] - perhaps[cell] + 1))

    def _within(
        self, tree: Taxonomy, allowed: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Mask the labels whose leaves are all allowed, and those of which some are."""
        if allowed is None:
            return np.ones(len(self.labels), np.bool_), np.zeros(len(self.labels), np.bool_)
        first, end = tree.leaf_ranges
        running = np.concatenate(([0], np.cumsum(allowed)))
        inside = (running[end] - running[first])[self.labels]
        sure = inside == tree.leaf_counts[self.labels]
        return sure, (inside > 0) & ~sure

    # as JSON and messages hold it

    def entries(self, tree: Taxonomy) -> dict[str, list[list[int]]]:
        """Return the cells that are not empty, with their counts, by the id of the label."""
        return {
            tree.ids[label]: [[int(c), int(row[c])] for c in np.flatnonzero(row)]
            for label, row in zip(self.labels.tolist(), self.counts, strict=True)
        }

    @classmethod
    def read(cls, entries: Mapping[str, Any], tree: Taxonomy) -> ScoreCounts:
        """Read what :meth:`entries` returned; anything else raises a ``ValueError``."""
        rows = sorted((tree.index(label), cells) for label, cells in entries.items())
        counts = np.zeros((len(rows), CELLS), np.int64)
        for row, (_, cells) in zip(counts, rows, strict=True):
            for cell, count in cells:
                if not (type(cell) is int and type(count) is int and 0 <= cell < CELLS):
                    raise ValueError("its counts of scores are not on the grid")
                if not 0 < count <= 10**9:
                    raise ValueError(f"{count} is not a count of images")
                row[cell] += count
        return cls(np.array([label for label, _ in rows], np.int64), counts)

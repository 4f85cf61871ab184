"""The choices on the way down the taxonomy, and at which of them a model goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy import Taxonomy

FEWEST_SAMPLES = 5  # of a branch that is called bad
_WORST = 5  # branches shown with images
_Z = 1.96  # of a 95% interval


@dataclass(frozen=True)
class Branch:
    """The samples below an inner node that reached it, and how many took the right child."""

    node: int
    arrived: int
    right: int  # went on to the right child

    @property
    def accuracy(self) -> float:
        """The share that took the right child."""
        return self.right / self.arrived

    @property
    def surely_wrong(self) -> float:
        """The lower end of Wilson's 95% interval of the share that went wrong.

        A branch with one wrong image of one ranks below a branch with 30 wrong images of 60.
        """
        count, wrong = self.arrived, 1 - self.accuracy
        middle = wrong + _Z**2 / (2 * count)
        reach = _Z * sqrt(wrong * (1 - wrong) / count + _Z**2 / (4 * count**2))
        return max(0.0, (middle - reach) / (1 + _Z**2 / count))


def branches_of(
    truth: NDArray[np.int64], predicted: NDArray[np.int64], tree: Taxonomy
) -> tuple[Branch, ...]:
    """Count per inner node the samples that reached it and those that took the right child."""
    parting = tree.lca(truth, predicted)
    ended = parting == truth  # rightly, or at a coarse truth: there is no way on
    size = len(tree)
    arrived = tree.sums_below(np.bincount(parting, minlength=size))
    arrived = arrived - np.bincount(truth[ended], minlength=size)
    wrong = np.bincount(parting[~ended], minlength=size)
    found = [
        Branch(node, int(arrived[node]), int(arrived[node] - wrong[node]))
        for node in np.flatnonzero(arrived).tolist()
    ]
    return tuple(sorted(found, key=lambda branch: (-branch.surely_wrong, branch.node)))


def wrong_at(
    node: int, truth: NDArray[np.int64], predicted: NDArray[np.int64], tree: Taxonomy
) -> NDArray[np.int64]:
    """Return the samples that rightly reached a node and then took the wrong child, or none."""
    parting = tree.lca(truth, predicted)
    return np.flatnonzero((parting == node) & (truth != node))


def worst(branches: Sequence[Branch]) -> list[Branch]:
    """Return the branches to show: the worst with enough samples and at least one mistake."""
    bad = [b for b in branches if b.arrived >= FEWEST_SAMPLES and b.right < b.arrived]
    return bad[:_WORST]

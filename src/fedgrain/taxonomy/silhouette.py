"""Mean silhouettes of the partitions that coarsening chooses from at one node (method, section 4).

In a partition, a child of the node has one of two forms: one cluster, or expanded into its parts.
The lowest common ancestor of leaves under different children is the node itself. A leaf's
silhouette therefore depends only on its depth, on the form of its own child, and on the distance to
the form of every other child.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

Positions = tuple[int, ...]  # a subset: the positions of its members among the children

# A group of identical leaves: depth, mean distance to their own cluster (-1: they score 0),
# distance to the nearest other cluster of their child's form (inf: there is none), how many leaves.
Leaves = tuple[int, float, float, int]

# A form of a child: by the depth of a leaf outside it, the distance from that leaf to the nearest
# cluster of the form; and the leaves inside it.
Form = tuple[Sequence[float], list[Leaves]]

_BLOCK_WORK = 2 * 10**6


class Candidates(NamedTuple):
    """Everything that the scores of all subsets at one node depend on."""

    kept: list[Form]  # [child] as one cluster; the leaves among the children come last, expanded
    expanded: dict[int, Form]  # position of a child that may be expanded -> its other form
    extra: list[int]  # how many children each of those adds
    spare: int  # how many children may be added in total
    depths: slice  # the range of depths that have leaves
    size: int  # number of leaves
    work: int  # table cells that scoring one subset reads

    def forms(self, subset: Positions) -> list[Form]:
        """Return the forms of all children, with those of the subset expanded."""
        forms = self.kept.copy()
        for position in subset:
            forms[position] = self.expanded[position]
        return forms


def with_nearest(
    forms: list[Form], depths: slice
) -> list[tuple[Form, Sequence[float], Sequence[float]]]:
    """Return each child's form with, by depth, the distances to the nearest two children.

    A leaf whose nearest child is its own uses the second. With two children, each gets the other.
    """
    if len(forms) == 2:
        one, two = forms
        return [(one, two[0], two[0]), (two, one[0], one[0])]
    if len(forms) == 1:
        nobody = (inf,) * depths.stop
        return [(forms[0], nobody, nobody)]
    columns = zip(*[away[depths] for away, _ in forms], strict=True)
    first, second = islice(zip(*map(sorted, columns), strict=True), 2)
    shallower = (inf,) * depths.start
    first, second = shallower + first, shallower + second
    return [(form, first, second) for form in forms]


def _summed_silhouettes(
    leaves: list[Leaves], away: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> float:
    """Sum the silhouettes of the leaves under one child, itself ``away`` from a leaf outside."""
    total = 0.0
    for depth, own, beside, count in leaves:
        if own >= 0.0:
            other = first[depth]
            if other == away[depth]:
                other = second[depth]
            if beside < other:
                other = beside
            total += count * (1.0 - own / other if own < other else other / own - 1.0)
    return total


def is_single_cluster(forms: list[Form]) -> bool:
    """Return whether all leaves are in one cluster, so that there is no partition to score."""
    return len(forms) == 1 and forms[0][1][0][2] == inf


def score_of(candidates: Candidates, subset: Positions) -> float:
    """Return the mean silhouette of a subset's partition; -inf if it is a single cluster."""
    forms = candidates.forms(subset)
    if is_single_cluster(forms):
        return -inf
    total = 0.0
    for (away, leaves), first, second in with_nearest(forms, candidates.depths):
        total += _summed_silhouettes(leaves, away, first, second)
    return total / candidates.size


def bounds(candidates: Candidates) -> tuple[float, list[float]]:
    """Return the score with nothing expanded, and the most that expanding each child can add.

    Expanding a child never moves it away from a leaf outside it: its nearest part is at most as far
    as the mean over all its parts. So a leaf scores best when all other children are kept, and a
    subset scores at most the first value plus what its members can add.
    """
    kept = with_nearest(candidates.kept, candidates.depths)
    totals = [
        _summed_silhouettes(leaves, away, first, second) for (away, leaves), first, second in kept
    ]
    gains = []
    for position, (_, leaves) in candidates.expanded.items():
        (away, _), first, second = kept[position]
        most = _summed_silhouettes(leaves, away, first, second)
        gains.append((most - totals[position]) / candidates.size)
    return sum(totals) / candidates.size, gains


class BlockScores:
    """Compute the scores of :func:`score_of` for many subsets at once."""

    def __init__(self, candidates: Candidates) -> None:
        """Turn the forms into arrays; a family is a group of identical leaves."""
        self.opened = [*candidates.expanded]
        self.size = candidates.size
        self.rows = max(1, _BLOCK_WORK // candidates.work)
        both = (candidates.kept, candidates.forms(tuple(self.opened)))
        away = np.array([[away[candidates.depths] for away, _ in forms] for forms in both])
        self.kept, self.expanded = away.swapaxes(1, 2)  # [depth, child]
        leaves = np.array([[alike for _, leaves in forms for alike in leaves] for forms in both])
        self.depth = leaves[0, :, 0].astype(np.intp) - candidates.depths.start  # [family]
        self.own, self.beside = leaves[:, :, 1], leaves[:, :, 2]  # [kept or expanded, family]
        self.counts = leaves[0, :, 3]
        families = [len(leaves) for _, leaves in candidates.kept]
        self.child = np.repeat(np.arange(len(families)), families)

    def __call__(self, subsets: BoolArray) -> FloatArray:
        """Return the scores of subsets [subset, child that may be expanded]."""
        decision = np.zeros((len(subsets), self.kept.shape[1]), dtype=np.bool_)
        decision[:, self.opened] = subsets
        starts = range(0, len(decision), self.rows)
        return np.concatenate([self._block(decision[n : n + self.rows]) for n in starts])

    def _block(self, decision: BoolArray) -> FloatArray:
        away = np.where(decision[:, None, :], self.expanded, self.kept)  # [subset, depth, child]
        closest = away.argmin(axis=2)
        first = np.take_along_axis(away, closest[:, :, None], axis=2)[:, :, 0]
        np.put_along_axis(away, closest[:, :, None], np.inf, axis=2)
        second = away.min(axis=2)  # [subset, depth]

        is_expanded = decision[:, self.child]  # [subset, family]
        own = np.where(is_expanded, self.own[1], self.own[0])
        beside = np.where(is_expanded, self.beside[1], self.beside[0])
        itself = closest[:, self.depth] == self.child
        other = np.where(itself, second[:, self.depth], first[:, self.depth])
        other = np.minimum(other, beside)
        with np.errstate(invalid="ignore"):  # a single cluster gives (inf - a) / inf
            silhouette = np.where(own < 0, 0.0, (other - own) / np.maximum(own, other))
        silhouette[np.isinf(other)] = -np.inf
        return np.asarray(silhouette @ self.counts / self.size)

"""Mean silhouettes of the partitions that coarsening chooses from at one node (method, section 4).

A child of the node appears in a partition in one of two forms, as one cluster or expanded into its
parts. Leaves under different children meet in the node, so all that a leaf's silhouette depends on
is the form of its own child and, by its depth, how near each other child's form is.
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

Positions = tuple[int, ...]  # a subset: where its members stand among the children

# Leaves that are alike: depth, mean distance to the own cluster (-1: they score 0), distance to the
# nearest other cluster of their child's form (inf: there is none), how many leaves.
Leaves = tuple[int, float, float, int]

# [depth]: the distance of a leaf elsewhere to the nearest of a form's clusters; the leaves in them.
Form = tuple[Sequence[float], list[Leaves]]

_BLOCK_WORK = 2 * 10**6


class Candidates(NamedTuple):
    """Everything that the scores of all subsets at one node depend on."""

    kept: list[Form]  # [child]: as one cluster; the node's own leaves, always expanded, come last
    expanded: dict[int, Form]  # position of a child that may be expanded -> its other form
    extra: list[int]  # how many children each of those adds
    spare: int  # how many may be added in all
    depths: slice  # where leaves lie
    size: int  # number of leaves
    work: int  # table cells that scoring one subset reads

    def forms(self, subset: Positions) -> list[Form]:
        """Return all children, those of the subset expanded."""
        forms = self.kept.copy()
        for position in subset:
            forms[position] = self.expanded[position]
        return forms


def with_nearest(
    forms: list[Form], depths: slice
) -> list[tuple[Form, Sequence[float], Sequence[float]]]:
    """Return with every child, by depth, the distance to the nearest child and to the second.

    A leaf whose nearest child is its own takes the second. Of two children each gets the other.
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
    """Sum over leaves under one child; ``away`` is the child's own form as ``first`` counts it."""
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
    """Whether this is no partition: one child, and its leaves have no other cluster beside them."""
    return len(forms) == 1 and forms[0][1][0][2] == inf


def score_of(candidates: Candidates, subset: Positions) -> float:
    """Mean silhouette of one subset's partition; -inf where it is a single cluster."""
    forms = candidates.forms(subset)
    if is_single_cluster(forms):
        return -inf
    total = 0.0
    for (away, leaves), first, second in with_nearest(forms, candidates.depths):
        total += _summed_silhouettes(leaves, away, first, second)
    return total / candidates.size


def bounds(candidates: Candidates) -> tuple[float, list[float]]:
    """Return the score with nothing expanded, and the most that each open child can add to it.

    A child expanded is never farther from a leaf elsewhere than the child kept: the nearest of its
    parts is at most as far as all of them on the mean. So no leaf scores better than with all other
    children kept, and a subset scores at most the first plus what its members can add.
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
    """The scores that :func:`score_of` gives, for many subsets at once."""

    def __init__(self, candidates: Candidates) -> None:
        """Turn the forms into arrays; families are rows of leaves that are alike."""
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
        """Score subsets [subset, open child]."""
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
        with np.errstate(invalid="ignore"):  # one single cluster: inf - a over inf
            silhouette = np.where(own < 0, 0.0, (other - own) / np.maximum(own, other))
        silhouette[np.isinf(other)] = -np.inf
        return np.asarray(silhouette @ self.counts / self.size)

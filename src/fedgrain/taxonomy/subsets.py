"""The best subset of children to expand at one node: exact over all, or a bounded search.

The forms come from :mod:`fedgrain.taxonomy.branches`; here subsets are only enumerated and scored.
Most need no score: expanding a child never takes it farther away from the leaves elsewhere (the
nearest part of a cluster is at most as far as the cluster on the mean), so no leaf scores better
than with all other children kept. That bounds the score of every subset by a sum over its members.
The rest are scored one by one if few, in blocks of arrays if many: same numbers, less waiting.
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
# Leaves alike: depth, mean distance to the own cluster (-1: they score 0), distance to the nearest
# other cluster of their child's form (inf: none), how many leaves.
Leaves = tuple[int, float, float, int]
# A child as it may appear in a partition, as one cluster or expanded into several: by depth the
# distance of a leaf elsewhere to the nearest of these clusters, and the leaves in them.
Form = tuple[Sequence[float], list[Leaves]]

TIE = 1e-9  # scores this close are equal (method, section 4)
ROUNDING = 1e-12  # more than a bound may be off by
EXACT_SUBSETS = 2**20  # beyond this many subsets, or this much work, the search takes over
EXACT_WORK = 10**9
SEARCH_WORK = 2 * 10**9
ONE_BY_ONE_WORK = 2_000
FIRST_BLOCK = 64  # subsets; each block is four times the one before, up to:
BLOCK_WORK = 2 * 10**6


class Candidates(NamedTuple):
    """Everything that the scores of all subsets at one node depend on."""

    kept: list[Form]  # [child]
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


class Choice(NamedTuple):
    """The chosen subset and its score."""

    positions: Positions
    score: float | None
    original_score: float | None
    exact: bool


def best_subset(candidates: Candidates) -> Choice:
    """Return the subset with the best mean silhouette; ties: the larger, then the first."""
    count = count_feasible(candidates)
    exact = count <= EXACT_SUBSETS and count * candidates.work <= EXACT_WORK
    base, gains = bounds(candidates)
    original = -inf if _single_cluster(candidates.kept) else base
    if not exact:
        scored = _searched(candidates)
    elif count * candidates.work <= ONE_BY_ONE_WORK:
        scored = _one_by_one(candidates, base, gains, original)
    else:
        scored = _in_blocks(candidates, base, gains, original)
    scored.append((original, ()))
    best = max(scored)[0]
    if best == -inf:
        return Choice((), None, None, exact)
    tied = [(-len(subset), subset, score) for score, subset in scored if score >= best - TIE]
    _, chosen, score = min(tied)
    return Choice(chosen, score, None if original == -inf else original, exact)


def count_feasible(candidates: Candidates) -> int:
    """Count the subsets within the spare children (a knapsack count; no subset is built)."""
    if sum(candidates.extra) <= candidates.spare:
        return int(2 ** len(candidates.extra))
    ways = [1] + [0] * candidates.spare
    for extra in candidates.extra:
        for used in range(candidates.spare, extra - 1, -1):
            ways[used] += ways[used - extra]
    return sum(ways)


def with_nearest(
    forms: Sequence[Form], depths: slice
) -> list[tuple[Form, Sequence[float], Sequence[float]]]:
    """Return with every child, by depth, the distance to the nearest child and to the second.

    A leaf whose nearest child is its own takes the second. Of two children each gets the other.
    """
    if len(forms) == 2:
        one, two = forms
        return [(one, two[0], two[0]), (two, one[0], one[0])]
    above = (inf,) * depths.start
    if len(forms) == 1:
        nobody = (inf,) * depths.stop
        return [(forms[0], nobody, nobody)]
    columns = zip(*[away[depths] for away, _ in forms], strict=True)
    first, second = islice(zip(*map(sorted, columns), strict=True), 2)
    first, second = above + first, above + second
    return [(form, first, second) for form in forms]


def summed_silhouettes(
    leaves: list[Leaves], away: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> float:
    """Sum over the leaves of one child, given :func:`with_nearest` and the child's own distance."""
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


def bounds(candidates: Candidates) -> tuple[float, list[float]]:
    """Return the score with nothing expanded, and the most each open child can add to it."""
    kept = with_nearest(candidates.kept, candidates.depths)
    totals = [
        summed_silhouettes(leaves, away, first, second) for (away, leaves), first, second in kept
    ]
    gains = []
    for position, (_, leaves) in candidates.expanded.items():
        (away, _), first, second = kept[position]
        most = summed_silhouettes(leaves, away, first, second)
        gains.append((most - totals[position]) / candidates.size)
    return sum(totals) / candidates.size, gains


def _single_cluster(forms: Sequence[Form]) -> bool:
    return len(forms) == 1 and forms[0][1][0][2] == inf


def score_of(candidates: Candidates, subset: Positions) -> float:
    """Mean silhouette of one subset's partition; -inf where it is a single cluster."""
    forms = candidates.forms(subset)
    if _single_cluster(forms):
        return -inf
    total = 0.0
    for (away, leaves), first, second in with_nearest(forms, candidates.depths):
        total += summed_silhouettes(leaves, away, first, second)
    return total / candidates.size


def _one_by_one(
    candidates: Candidates, base: float, gains: list[float], best: float
) -> list[tuple[float, Positions]]:
    """Score all feasible subsets but the empty one that may be best or tied, best bounds first."""
    subsets: list[tuple[float, Positions, int]] = [(base, (), 0)]
    for position, extra, gain in zip(candidates.expanded, candidates.extra, gains, strict=True):
        most = candidates.spare - extra
        subsets += [
            (bound + gain, (*subset, position), used + extra)
            for bound, subset, used in subsets
            if used <= most
        ]
    del subsets[0]
    subsets.sort(reverse=True)
    scored = []
    for bound, subset, _ in subsets:
        if bound < best - TIE - ROUNDING:
            break
        score = score_of(candidates, subset)
        scored.append((score, subset))
        best = max(best, score)
    return scored


def _in_blocks(
    candidates: Candidates, base: float, gains: list[float], best: float
) -> list[tuple[float, Positions]]:
    """Do as :func:`_one_by_one` does, for many subsets; those far from the best are left out."""
    rows = _all_feasible(candidates)
    bound = base + rows @ np.array(gains)
    order = np.argsort(-bound, kind="stable")
    score_rows = BlockScores(candidates)
    scores: list[FloatArray] = []
    start, block = 0, FIRST_BLOCK
    while start < len(order) and bound[order[start]] >= best - TIE - ROUNDING:
        scores.append(score_rows(rows[order[start : start + block]]))
        best = max(best, float(scores[-1].max()))
        start, block = start + block, block * 4
    found = np.concatenate(scores) if scores else np.empty(0)
    worth = np.flatnonzero(found >= best - TIE)
    opened = np.array([*candidates.expanded])
    return [(float(found[n]), tuple(opened[rows[order[n]]].tolist())) for n in worth]


def _all_feasible(candidates: Candidates) -> BoolArray:
    """Return all subsets within the spare children [subset, open position], the empty one first."""
    subsets = np.zeros((1, len(candidates.extra)), dtype=np.bool_)
    used = np.zeros(1, dtype=np.int64)
    for number, extra in enumerate(candidates.extra):
        fits = np.flatnonzero(used + extra <= candidates.spare)
        grown = subsets[fits]
        grown[:, number] = True
        subsets = np.concatenate((subsets, grown))
        used = np.concatenate((used, used[fits] + extra))
    return subsets


def _searched(candidates: Candidates) -> list[tuple[float, Positions]]:
    """Climb from two starts, one flip at a time, to a local best; the work is bounded.

    The choice among the two ends is not claimed to be exact.
    """
    extra = np.array(candidates.extra)
    empty = np.zeros(len(extra), dtype=np.bool_)
    cheapest_first = np.argsort(extra, kind="stable")
    full = empty.copy()
    full[cheapest_first[np.cumsum(extra[cheapest_first]) <= candidates.spare]] = True
    steps = max(1, SEARCH_WORK // (2 * len(extra) * candidates.work))
    score_rows = BlockScores(candidates)
    ends = np.stack([_climb(score_rows, start, extra, candidates.spare, steps) for start in (empty, full)])
    opened = np.array([*candidates.expanded])
    return [
        (float(score), tuple(opened[end].tolist()))
        for score, end in zip(score_rows(ends), ends, strict=True)
    ]


def _climb(
    score_rows: BlockScores, start: BoolArray, extra: NDArray[np.int64], spare: int, steps: int
) -> BoolArray:
    here, score = start, score_rows(start[None])[0]
    for _ in range(steps):
        flips = here ^ np.eye(len(here), dtype=np.bool_)
        flips = flips[flips @ extra <= spare]
        scores = score_rows(flips)
        best = int(np.argmax(scores))
        if not scores[best] > score + TIE:
            break
        here, score = flips[best], scores[best]
    return here


class BlockScores:
    """Mean silhouettes as :func:`score_of` gives them, for many subsets at once."""

    def __init__(self, candidates: Candidates) -> None:
        """Turn the forms into arrays."""
        self.opened = [*candidates.expanded]
        self.size = candidates.size
        self.rows = max(1, BLOCK_WORK // candidates.work)
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
        """Score subsets [subset, open position]."""
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

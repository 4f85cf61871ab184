"""The best subset of children to expand at one node: exact over all, or a bounded search.

The tables come from :mod:`fedgrain.taxonomy.coarsen`; here subsets are only enumerated and scored.
A few subsets are scored one by one, many in blocks of arrays: same numbers, less waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from math import inf, isinf

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Subset = tuple[bool, ...]

TIE = 1e-9  # scores this close are equal (method, section 4)
EXACT_SUBSETS = 2**20  # beyond this many subsets, or this much work, the search takes over
EXACT_WORK = 10**9
SEARCH_WORK = 2 * 10**9
ONE_BY_ONE_WORK = 2_000
BLOCK_WORK = 2 * 10**6


@dataclass(frozen=True)
class Candidates:
    """Everything a subset's score depends on.

    A group of leaves is (child they lie under, depth, own distance if the child stays a cluster,
    own distance if it is expanded, distance to the nearest other part if it is expanded, share of
    all leaves). An own distance of -1 scores 0.
    """

    kept: list[list[float]]  # [depth][child]: distance of a leaf elsewhere to the child as it is
    expanded: list[dict[int, float]]  # [depth][open child]: to the nearest of the child's parts
    groups: list[tuple[int, int, float, float, float, float]]
    open_positions: tuple[int, ...]  # children that may be expanded
    extra: tuple[int, ...]  # how many children each of them adds
    spare: int  # how many children may be added in all

    @property
    def work(self) -> int:
        """Table cells that scoring one subset reads."""
        return len(self.kept) * len(self.kept[0]) + len(self.groups)


@dataclass(frozen=True)
class Choice:
    """The chosen subset, as positions among the children, and its score."""

    positions: tuple[int, ...]
    score: float | None
    original_score: float | None
    exact: bool


def best_subset(candidates: Candidates) -> Choice:
    """Return the subset with the best mean silhouette; ties: the larger, then the first."""
    count = count_feasible(candidates)
    exact = count <= EXACT_SUBSETS and count * candidates.work <= EXACT_WORK
    if exact and count * candidates.work <= ONE_BY_ONE_WORK:
        subsets: Sequence[Subset] = _few_feasible(candidates)
        scores = [score_of(candidates, subset) for subset in subsets]
    else:
        rows = _all_feasible(candidates) if exact else _searched(candidates)
        scores = _scores(candidates, rows).tolist()
        worth = np.flatnonzero(np.array(scores) >= max(scores) - TIE).tolist()
        subsets = [tuple(rows[0].tolist()), *(tuple(rows[row].tolist()) for row in worth)]
        scores = [scores[0], *(scores[row] for row in worth)]
    original = _scored_or_none(scores[0])  # the empty subset comes first
    best = max(scores)
    if isinf(best):
        return Choice((), None, original, exact)
    tied = [(subset, s) for subset, s in zip(subsets, scores, strict=True) if s >= best - TIE]
    # of two subsets of one size the first in child order holds the first position they differ in
    chosen, score = max(tied, key=lambda pair: (sum(pair[0]), pair[0]))
    return Choice(tuple(compress(candidates.open_positions, chosen)), score, original, exact)


def _scored_or_none(score: float) -> float | None:
    return None if isinf(score) else score


def count_feasible(candidates: Candidates) -> int:
    """Count the subsets within the spare children (a knapsack count; no subset is built)."""
    if sum(candidates.extra) <= candidates.spare:
        return int(2 ** len(candidates.extra))
    ways = [1] + [0] * candidates.spare
    for extra in candidates.extra:
        for used in range(candidates.spare, extra - 1, -1):
            ways[used] += ways[used - extra]
    return sum(ways)


def _few_feasible(candidates: Candidates) -> list[Subset]:
    """Return all subsets within the spare children, the empty one first."""
    subsets: list[tuple[Subset, int]] = [((), 0)]
    for extra in candidates.extra:
        grown = [
            ((*subset, True), used + extra)
            for subset, used in subsets
            if used + extra <= candidates.spare
        ]
        subsets = [((*subset, False), used) for subset, used in subsets] + grown
    return [subset for subset, _ in subsets]


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


def nearest_two(candidates: Candidates, positions: Sequence[int]) -> list[tuple[float, float, int]]:
    """Per depth: the distance to the nearest child and to the second, and which one is nearest.

    A leaf under the nearest child itself must take the second.
    """
    table = []
    for kept, expanded in zip(candidates.kept, candidates.expanded, strict=True):
        away = kept.copy()
        for position in positions:
            away[position] = expanded[position]
        first = min(away)
        closest = away.index(first)
        away[closest] = inf
        table.append((first, min(away), closest))
    return table


def score_of(candidates: Candidates, subset: Subset) -> float:
    """Mean silhouette of one subset's partition; -inf where it is a single cluster."""
    positions = list(compress(candidates.open_positions, subset))
    nearest = nearest_two(candidates, positions)
    total = 0.0
    for child, depth, own, own_expanded, beside, weight in candidates.groups:
        first, second, closest = nearest[depth]
        other = second if closest == child else first
        if child in positions:
            own = own_expanded
            other = beside if beside < other else other
        if other == inf:
            return -inf
        if own >= 0.0:
            total += weight * (other - own) / (own if own > other else other)
    return total


def _searched(candidates: Candidates) -> BoolArray:
    """Climb from two starts, one flip at a time, to a local best; the work is bounded.

    Returns the empty subset and the two ends: the choice among them is not claimed to be exact.
    """
    extra = np.array(candidates.extra)
    empty = np.zeros(len(extra), dtype=np.bool_)
    cheapest_first = np.argsort(extra, kind="stable")
    full = empty.copy()
    full[cheapest_first[np.cumsum(extra[cheapest_first]) <= candidates.spare]] = True
    steps = max(1, SEARCH_WORK // (2 * len(extra) * candidates.work))
    ends = [_climb(candidates, start, extra, steps) for start in (empty, full)]
    return np.stack([empty, *ends])


def _climb(
    candidates: Candidates, start: BoolArray, extra: NDArray[np.int64], steps: int
) -> BoolArray:
    here, score = start, _scores(candidates, start[None])[0]
    for _ in range(steps):
        flips = here ^ np.eye(len(here), dtype=np.bool_)
        flips = flips[flips @ extra <= candidates.spare]
        scores = _scores(candidates, flips)
        best = int(np.argmax(scores))
        if not scores[best] > score + TIE:
            break
        here, score = flips[best], scores[best]
    return here


def _scores(candidates: Candidates, subsets: BoolArray) -> FloatArray:
    """Mean silhouettes as :func:`score_of` gives them, for many subsets [subset, open position]."""
    kept = np.array(candidates.kept)  # [depth, child]
    expanded = kept.copy()
    for row, distances in zip(expanded, candidates.expanded, strict=True):
        row[list(distances)] = list(distances.values())
    groups = np.array(candidates.groups).T
    decision = np.zeros((len(subsets), kept.shape[1]), dtype=np.bool_)
    decision[:, list(candidates.open_positions)] = subsets
    rows = max(1, BLOCK_WORK // candidates.work)
    return np.concatenate(
        [
            _block_scores(kept, expanded, groups, decision[start : start + rows])
            for start in range(0, len(decision), rows)
        ]
    )


def _block_scores(
    kept: FloatArray, expanded: FloatArray, groups: FloatArray, decision: BoolArray
) -> FloatArray:
    away = np.where(decision[:, None, :], expanded, kept)  # [subset, depth, child]
    closest = away.argmin(axis=2)
    first = np.take_along_axis(away, closest[:, :, None], axis=2)[:, :, 0]
    np.put_along_axis(away, closest[:, :, None], np.inf, axis=2)
    second = away.min(axis=2)  # [subset, depth]

    child, depth = groups[0].astype(np.intp), groups[1].astype(np.intp)
    own_kept, own_expanded, beside, weights = groups[2:]
    other = np.where(
        closest[:, depth] == child, second[:, depth], first[:, depth]
    )  # [subset, group]
    is_expanded = decision[:, child]
    other = np.where(is_expanded, np.minimum(other, beside), other)
    own = np.where(is_expanded, own_expanded, own_kept)
    with np.errstate(invalid="ignore"):  # one single cluster: inf - a over inf
        silhouette = np.where(own < 0, 0.0, (other - own) / np.maximum(own, other))
    silhouette[np.isinf(other)] = -np.inf
    return np.asarray(silhouette @ weights)

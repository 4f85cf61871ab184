"""The best subset of children to expand at one node: exact over all, or a bounded search.

The forms come from :mod:`fedgrain.taxonomy.coarsen`; here subsets are only enumerated and scored.
A few subsets are scored one by one, many in blocks of arrays: same numbers, less waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Positions = tuple[int, ...]  # a subset: the positions of its members among the children

TIE = 1e-9  # scores this close are equal (method, section 4)
EXACT_SUBSETS = 2**20  # beyond this many subsets, or this much work, the search takes over
EXACT_WORK = 10**9
SEARCH_WORK = 2 * 10**9
ONE_BY_ONE_WORK = 2_000
BLOCK_WORK = 2 * 10**6


class Form(NamedTuple):
    """A child as it may appear in a partition: as one cluster, or expanded into several.

    Leaves are (depth, mean distance to the own cluster, distance to the nearest other cluster of
    this form, how many such leaves). An own distance of -1 scores 0.
    """

    away: list[float]  # [depth]: distance of a leaf elsewhere to the nearest cluster of this form
    leaves: list[tuple[int, float, float, int]]


class Candidates(NamedTuple):
    """Everything that the scores of all subsets at one node depend on."""

    kept: list[Form]  # [child]
    expanded: dict[int, Form]  # position of a child that may be expanded -> its other form
    extra: list[int]  # how many clusters each of those adds
    spare: int  # how many may be added in all
    size: int  # number of leaves

    @property
    def work(self) -> int:
        """Table cells that scoring one subset reads."""
        return len(self.kept[0].away) * len(self.kept) + sum([len(f.leaves) for f in self.kept])

    def forms(self, expanded: Positions) -> list[Form]:
        """Return every child in its form, those at the given positions expanded."""
        forms = self.kept.copy()
        for position in expanded:
            forms[position] = self.expanded[position]
        return forms


@dataclass(frozen=True)
class Choice:
    """The chosen subset, as positions among the children, and its score."""

    positions: Positions
    score: float | None
    original_score: float | None
    exact: bool


def best_subset(candidates: Candidates) -> Choice:
    """Return the subset with the best mean silhouette; ties: the larger, then the first."""
    work = count_feasible(candidates)
    exact = work <= EXACT_SUBSETS
    work *= candidates.work
    exact = exact and work <= EXACT_WORK
    if exact and work <= ONE_BY_ONE_WORK:
        subsets = _few_feasible(candidates)
        scores = [score_of(candidates, subset) for subset in subsets]
    else:
        rows = _all_feasible(candidates) if exact else _searched(candidates)
        row_scores = _scores(candidates, rows)
        worth = [0, *np.flatnonzero(row_scores >= row_scores.max() - TIE).tolist()]
        scores = row_scores[worth].tolist()
        opened = np.array(list(candidates.expanded), dtype=np.intp)
        subsets = [tuple(opened[row].tolist()) for row in rows[worth]]
    original = scores[0]  # the empty subset comes first
    best = max(scores)
    if isinf(best):
        return Choice((), None, None, exact)
    tied = [(-len(s), s, score) for s, score in zip(subsets, scores, strict=True) if score >= best - TIE]
    _, chosen, score = min(tied)
    return Choice(chosen, score, None if isinf(original) else original, exact)


def count_feasible(candidates: Candidates) -> int:
    """Count the subsets within the spare children (a knapsack count; no subset is built)."""
    if sum(candidates.extra) <= candidates.spare:
        return int(2 ** len(candidates.extra))
    ways = [1] + [0] * candidates.spare
    for extra in candidates.extra:
        for used in range(candidates.spare, extra - 1, -1):
            ways[used] += ways[used - extra]
    return sum(ways)


def _few_feasible(candidates: Candidates) -> list[Positions]:
    """Return all subsets within the spare children, the empty one first."""
    subsets: list[tuple[Positions, int]] = [((), 0)]
    for position, extra in zip(candidates.expanded, candidates.extra, strict=True):
        most = candidates.spare - extra
        subsets += [((*s, position), used + extra) for s, used in subsets if used <= most]
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


def distances_to_others(forms: Sequence[Form]) -> list[list[float]]:
    """Return [child][depth]: the distance of a leaf under the child to the nearest other child."""
    nearest = [sorted((*column, inf))[:2] for column in zip(*[form.away for form in forms])]
    return [
        [second if here == first else first for here, (first, second) in zip(form.away, nearest)]
        for form in forms
    ]


def score_of(candidates: Candidates, subset: Positions) -> float:
    """Mean silhouette of one subset's partition; -inf where it is a single cluster."""
    forms = candidates.forms(subset)
    if len(forms) == 1 and isinf(forms[0].leaves[0][2]):
        return -inf
    total = 0.0
    for form, others in zip(forms, distances_to_others(forms), strict=True):
        for depth, own, beside, count in form.leaves:
            if own >= 0.0:
                other = others[depth]
                if beside < other:
                    other = beside
                total += count * (other - own) / (own if own > other else other)
    return total / candidates.size


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
    opened = tuple(candidates.expanded)
    both = (candidates.kept, candidates.forms(opened))
    away = np.array([[form.away for form in forms] for forms in both])  # [form, child, depth]
    leaves = np.array([[leaf for form in forms for leaf in form.leaves] for forms in both])
    child = np.repeat(np.arange(away.shape[1]), [len(form.leaves) for form in candidates.kept])
    decision = np.zeros((len(subsets), away.shape[1]), dtype=np.bool_)
    decision[:, opened] = subsets
    rows = max(1, BLOCK_WORK // candidates.work)
    totals = [
        _block_totals(away, leaves, child, decision[start : start + rows])
        for start in range(0, len(decision), rows)
    ]
    return np.asarray(np.concatenate(totals) / candidates.size)


def _block_totals(
    away: FloatArray, leaves: FloatArray, child: NDArray[np.intp], decision: BoolArray
) -> FloatArray:
    kept, expanded = away.swapaxes(1, 2)  # [depth, child]
    shown = np.where(decision[:, None, :], expanded, kept)  # [subset, depth, child]
    closest = shown.argmin(axis=2)
    first = np.take_along_axis(shown, closest[:, :, None], axis=2)[:, :, 0]
    np.put_along_axis(shown, closest[:, :, None], np.inf, axis=2)
    second = shown.min(axis=2)  # [subset, depth]

    depth, counts = leaves[0, :, 0].astype(np.intp), leaves[0, :, 3]
    is_expanded = decision[:, child]  # [subset, family]
    own = np.where(is_expanded, leaves[1, :, 1], leaves[0, :, 1])
    beside = np.where(is_expanded, leaves[1, :, 2], leaves[0, :, 2])
    other = np.where(closest[:, depth] == child, second[:, depth], first[:, depth])
    other = np.minimum(other, beside)
    with np.errstate(invalid="ignore"):  # one single cluster: inf - a over inf
        silhouette = np.where(own < 0, 0.0, (other - own) / np.maximum(own, other))
    silhouette[np.isinf(other)] = -np.inf
    return np.asarray(silhouette @ counts)

"""The best subset of children to expand at one node: exact over all, or a bounded search.

Most subsets need no score, since :func:`fedgrain.taxonomy.silhouette.bounds` shows that they cannot
be best. The others are scored one by one where a node has few subsets, in blocks of arrays where it
has many: same numbers, less waiting. Where it has very many, children that are alike (genera of two
species each, say) count as one kind, and a search finds a score that the others have to reach; only
where too many subsets may still reach it does the search decide.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy.silhouette import (
    BlockScores,
    BoolArray,
    Candidates,
    FloatArray,
    Positions,
    bounds,
    is_single_cluster,
    score_of,
)

TIE = 1e-9  # scores this close are equal (method, section 4)
ROUNDING = 1e-12  # more than a bound or a score may be off by
EXACT_SUBSETS = 2**20  # beyond this many subsets, or this much work, the search takes over
_EXACT_WORK = 10**9
_SEARCH_WORK = 2 * 10**9
ONE_BY_ONE_WORK = 2_000
_KIND_DIGITS = 12  # forms are alike that agree to this many digits
FIRST_BLOCK = 64  # subsets; each further block has four times as many

_Scored = list[tuple[float, Positions]]


class Choice(NamedTuple):
    """The chosen subset and its score."""

    positions: Positions
    score: float | None
    original_score: float | None
    exact: bool
    subsets: int | None = None  # how many there are, where a search decided
    at_most: float | None = None  # no subset scores better, where a search decided


class _Alike(NamedTuple):
    """Open children, by column, that one may put in place of each other."""

    columns: list[int]
    extra: int  # of each
    gain: float  # of each


def best_subset(candidates: Candidates) -> Choice:
    """Return the subset with the best mean silhouette; ties: the larger, then the first."""
    base, gains = bounds(candidates)
    original = -inf if is_single_cluster(candidates.kept) else base
    if max(gains, default=-inf) < original - base - TIE - ROUNDING:  # no expansion can pay
        return Choice((), original, original, True)
    count = count_feasible(candidates)
    if count > EXACT_SUBSETS or count * candidates.work > _EXACT_WORK:
        return _best_of_many(candidates, base, gains, original, count)
    if count * candidates.work <= ONE_BY_ONE_WORK:
        scored = _one_by_one(candidates, base, gains, original)
    else:
        subsets = _all_feasible(candidates)
        scored = _in_blocks(candidates, subsets, base + subsets @ np.array(gains), original)
    return _chosen([*scored, (original, ())], original)


def _chosen(scored: _Scored, original: float) -> Choice:
    best = max(scored)[0]
    if best == -inf:
        return Choice((), None, None, True)
    tied = [(-len(subset), subset, score) for score, subset in scored if score >= best - TIE]
    _, chosen, score = min(tied)
    return Choice(chosen, score, None if original == -inf else original, True)


def _best_of_many(
    candidates: Candidates, base: float, gains: list[float], original: float, count: int
) -> Choice:
    """Choose where the subsets are too many to list: exact if few enough may be best."""
    scored = [*_searched(candidates), (original, ())]
    best = max(scored)[0]
    groups = _alike(candidates, gains)
    worth = _worth_scoring(candidates, groups, base, best)
    if worth is not None:
        return _chosen([*_in_blocks(candidates, *worth, best), *scored], original)
    at_most = base + float(_most_to_gain(groups, candidates.spare)[0][-1])
    return _chosen(scored, original)._replace(exact=False, subsets=count, at_most=at_most)


def count_feasible(candidates: Candidates) -> int:
    """Count the subsets within the spare children (a knapsack count; no subset is built)."""
    if sum(candidates.extra) <= candidates.spare:
        return int(2 ** len(candidates.extra))
    ways = [1] + [0] * candidates.spare
    for extra in candidates.extra:
        for used in range(candidates.spare, extra - 1, -1):
            ways[used] += ways[used - extra]
    return sum(ways)


def _one_by_one(candidates: Candidates, base: float, gains: list[float], best: float) -> _Scored:
    """Score the feasible subsets, but for the empty one, that may be best or tied with the best."""
    subsets: list[tuple[float, Positions, int]] = [(base, (), 0)]
    for position, extra, gain in zip(candidates.expanded, candidates.extra, gains, strict=True):
        most = candidates.spare - extra
        subsets += [
            (bound + gain, (*subset, position), used + extra)
            for bound, subset, used in subsets
            if used <= most
        ]
    del subsets[0]
    subsets.sort(reverse=True)  # the highest bound first
    scored = []
    for bound, subset, _ in subsets:
        if bound < best - TIE - ROUNDING:
            break
        score = score_of(candidates, subset)
        scored.append((score, subset))
        best = max(best, score)
    return scored


def _in_blocks(
    candidates: Candidates, subsets: BoolArray, bound: FloatArray, best: float
) -> _Scored:
    """Do the same for many subsets; of those scored, return the best and what is tied with it."""
    order = np.argsort(-bound, kind="stable")
    subsets, bound = subsets[order], bound[order]
    score_rows = BlockScores(candidates)
    scores = np.empty(0)
    block = FIRST_BLOCK
    while len(scores) < len(subsets) and bound[len(scores)] >= best - TIE - ROUNDING:
        found = score_rows(subsets[len(scores) : len(scores) + block])
        best = max(best, float(found.max()))
        scores = np.concatenate((scores, found))
        block *= 4
    worth = np.flatnonzero(scores >= best - TIE)
    return _listed(candidates, scores[worth], subsets[worth])


def _listed(candidates: Candidates, scores: FloatArray, subsets: BoolArray) -> _Scored:
    opened = np.array([*candidates.expanded], dtype=np.intp)
    positions = [tuple(opened[subset].tolist()) for subset in subsets]
    return list(zip(scores.tolist(), positions, strict=True))


def _all_feasible(candidates: Candidates) -> BoolArray:
    """Return all subsets within the spare children [subset, open child], the empty one first."""
    subsets = np.zeros((1, len(candidates.extra)), dtype=np.bool_)
    used = np.zeros(1, dtype=np.int64)
    for number, extra in enumerate(candidates.extra):
        fits = np.flatnonzero(used + extra <= candidates.spare)
        grown = subsets[fits]
        grown[:, number] = True
        subsets = np.concatenate((subsets, grown))
        used = np.concatenate((used, used[fits] + extra))
    return subsets


def _alike(candidates: Candidates, gains: list[float]) -> list[_Alike]:
    """Put children together whose two forms are the same but for rounding.

    A score then depends on how many of a kind are expanded, and of equal subsets the first wins: so
    it is enough to look at subsets that take the first ones of each kind.
    """
    kinds: dict[Any, _Alike] = {}
    for column, (position, expanded) in enumerate(candidates.expanded.items()):
        kind: list[Any] = [candidates.extra[column]]
        for away, leaves in (candidates.kept[position], expanded):
            seen = [round(distance, _KIND_DIGITS) for distance in away[candidates.depths]]
            own = [(d, round(a, _KIND_DIGITS), round(b, _KIND_DIGITS), n) for d, a, b, n in leaves]
            kind += [tuple(seen), tuple(sorted(own))]
        group = _Alike([], candidates.extra[column], gains[column])
        kinds.setdefault(tuple(kind), group).columns.append(column)
    return sorted(kinds.values(), key=lambda group: -abs(group.gain))


def _most_to_gain(groups: list[_Alike], spare: int) -> list[FloatArray]:
    """Per group, the most that it and those after it can add [children that may be added]."""
    tables = [np.zeros(spare + 1)]
    for group in reversed(groups):
        most = tables[-1].copy()
        for _ in group.columns if group.gain > 0 and group.extra <= spare else ():
            most[group.extra :] = np.maximum(
                most[group.extra :], most[: spare + 1 - group.extra] + group.gain
            )
        tables.append(most)
    return tables[::-1]


def _worth_scoring(
    candidates: Candidates, groups: list[_Alike], base: float, best: float
) -> tuple[BoolArray, FloatArray] | None:
    """Return the subsets that may reach ``best``, with their bounds; None where there are too many.

    They grow group by group, and those are left out that reach it with none of the next groups.
    """
    limit = min(EXACT_SUBSETS, _EXACT_WORK // candidates.work)
    subsets = np.zeros((1, len(candidates.extra)), dtype=np.bool_)
    used, bound = np.zeros(1, dtype=np.int64), np.full(1, base)
    for group, later in zip(groups, _most_to_gain(groups, candidates.spare)[1:], strict=True):
        grown, count = [], 0
        for column in [None, *group.columns]:
            if column is not None:
                fits = used + group.extra <= candidates.spare
                subsets, used, bound = subsets[fits], used[fits] + group.extra, bound[fits]
                subsets[:, column] = True
                bound = bound + group.gain
            enough = bound + later[candidates.spare - used] >= best - TIE - ROUNDING
            grown.append((subsets[enough], used[enough], bound[enough]))
            count += int(enough.sum())
            if count > limit:
                return None
        subsets, used, bound = (np.concatenate(parts) for parts in zip(*grown, strict=True))
    return subsets, bound


def _searched(candidates: Candidates) -> _Scored:
    """Climb from two starts, one flip at a time, to a local best; the work is bounded.

    The better of the two ends need not be the best of all.
    """
    extra = np.array(candidates.extra)
    empty = np.zeros(len(extra), dtype=np.bool_)
    cheapest_first = np.argsort(extra, kind="stable")
    full = empty.copy()
    full[cheapest_first[np.cumsum(extra[cheapest_first]) <= candidates.spare]] = True
    steps = max(1, _SEARCH_WORK // (2 * len(extra) * candidates.work))
    score_rows = BlockScores(candidates)
    climbs = [_climb(score_rows, start, extra, candidates.spare, steps) for start in (empty, full)]
    ends = np.stack(climbs)
    return _listed(candidates, score_rows(ends), ends)


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

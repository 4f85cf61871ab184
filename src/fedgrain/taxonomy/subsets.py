"""Find the best subset of children to expand at one node, exactly or by a bounded search.

Most subsets are never scored: :func:`fedgrain.taxonomy.silhouette.bounds` shows that they cannot be
best. How the others are scored depends on how many subsets the node has:

- few: one by one;
- many: in blocks of arrays, which gives the same numbers faster;
- very many: a search finds a good score first. Then only the subsets that may reach it are scored,
  and children that are alike (say, genera of two species each) count as one kind. If too many
  subsets may still reach that score, the result of the search is taken, and it may not be the best.
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

TIE = 1e-9  # scores this close count as equal (method, section 4)
ROUNDING = 1e-12  # larger than any rounding error of a bound or a score
EXACT_SUBSETS = 2**20  # with more subsets, or more work, a search runs first
_EXACT_WORK = 10**9
_SEARCH_WORK = 2 * 10**9
ONE_BY_ONE_WORK = 2_000
_KIND_DIGITS = 12  # forms that agree to this many digits are alike
FIRST_BLOCK = 64  # subsets; each further block has four times as many

_Scored = list[tuple[float, Positions]]


class Choice(NamedTuple):
    """The chosen subset and its score."""

    positions: Positions
    score: float | None
    original_score: float | None
    exact: bool
    subsets: int | None = None  # if a search decided: how many subsets there are
    at_most: float | None = None  # if a search decided: no subset scores better than this


class _Alike(NamedTuple):
    """Children that can be swapped for each other without changing a score."""

    columns: list[int]
    extra: int  # children that each of them adds
    gain: float  # the most that each of them adds to the score


def best_subset(candidates: Candidates) -> Choice:
    """Return the subset with the best mean silhouette; on a tie the larger, then the first."""
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
    """Choose among too many subsets to list; exact if only few of them may be best."""
    scored = [*_searched(candidates), (original, ())]
    best = max(scored)[0]
    groups = _alike(candidates, gains)
    worth = _worth_scoring(candidates, groups, base, best)
    if worth is not None:
        return _chosen([*_in_blocks(candidates, *worth, best), *scored], original)
    at_most = base + float(_most_to_gain(groups, candidates.spare)[0][-1])
    return _chosen(scored, original)._replace(exact=False, subsets=count, at_most=at_most)


def count_feasible(candidates: Candidates) -> int:
    """Count the subsets that add at most ``spare`` children, without listing them (knapsack)."""
    if sum(candidates.extra) <= candidates.spare:
        return int(2 ** len(candidates.extra))
    ways = [1] + [0] * candidates.spare
    for extra in candidates.extra:
        for used in range(candidates.spare, extra - 1, -1):
            ways[used] += ways[used - extra]
    return sum(ways)


def _one_by_one(candidates: Candidates, base: float, gains: list[float], best: float) -> _Scored:
    """Score the feasible, non-empty subsets that may be best or tied with the best."""
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
    """Score many subsets, highest bound first; return the best and those tied with it."""
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
    """Return all subsets that add at most ``spare`` children [subset, child], empty one first."""
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
    """Group the children whose two forms are the same up to rounding.

    A score depends only on how many children of each group are expanded, and the first of several
    equal subsets wins. So only subsets that take the first children of each group matter.
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
    """Per group, the most that it and the later groups can add to the score [spare children]."""
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
    """Return the subsets that may reach ``best``, with their bounds; None if there are too many.

    Subsets grow group by group. One that cannot reach ``best``, whatever the later groups add, is
    dropped at once.
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
    """Climb to a local optimum from the empty and from a full subset, one flip at a time.

    The work is bounded. The better of the two results may not be the best of all subsets.
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

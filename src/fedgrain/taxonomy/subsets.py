"""The best subset of children to expand at one node: exact over all, or a bounded search.

The tables come from :mod:`fedgrain.taxonomy.coarsen`; here subsets are only enumerated and scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

TIE = 1e-9  # scores this close are equal (method, section 4)
EXACT_SUBSETS = 2**20  # beyond this many subsets, or this much work, the search takes over
EXACT_WORK = 10**9
SEARCH_WORK = 2 * 10**9
BLOCK_WORK = 2 * 10**6


@dataclass(frozen=True)
class Candidates:
    """Everything a subset's score depends on. Leaves that look alike form one group.

    ``expanded`` below is 0 (the child stays a cluster) or 1 (its children are clusters).
    """

    nearest: (
        FloatArray  # [expanded, depth, child]: distance of a leaf elsewhere under u to the child
    )
    group_child: NDArray[np.intp]  # [group]: the child of u the leaves lie under
    group_depth: NDArray[np.intp]  # [group]: row of ``nearest``
    own_distance: FloatArray  # [expanded, group]; -1 scores 0
    between_parts: (
        FloatArray  # [group]: distance to the nearest other part, if the child is expanded
    )
    weights: FloatArray  # [group]: share of the leaves
    open_positions: tuple[int, ...]  # children that may be expanded
    extra: tuple[int, ...]  # how many children each of them adds
    spare: int  # how many children may be added in all

    @property
    def work(self) -> int:
        """Table cells that scoring one subset reads."""
        return int(self.nearest[0].size + self.weights.size)


@dataclass(frozen=True)
class Choice:
    """The chosen subset, as positions among the children, and its score."""

    positions: tuple[int, ...]
    score: float | None
    original_score: float | None
    exact: bool


def best_subset(candidates: Candidates) -> Choice:
    """Return the subset with the best mean silhouette; ties: the larger, then the first."""
    count = _count_feasible(candidates)
    exact = count <= EXACT_SUBSETS and count * candidates.work <= EXACT_WORK
    subsets = _all_feasible(candidates) if exact else _searched(candidates)
    scores = _scores(candidates, subsets)
    original = _scored_or_none(scores[0])  # the empty subset comes first
    if not np.isfinite(scores.max()):
        return Choice((), None, original, exact)
    tied = np.flatnonzero(scores >= scores.max() - TIE)
    size = subsets[tied].sum(axis=1)
    tied = tied[size == size.max()]
    # of two subsets of one size the first in child order holds the first position they differ in
    first = max(tied.tolist(), key=lambda row: subsets[row].tolist())
    chosen = np.flatnonzero(subsets[first])
    positions = tuple(candidates.open_positions[c] for c in chosen)
    return Choice(positions, _scored_or_none(scores[first]), original, exact)


def _scored_or_none(score: float) -> float | None:
    return float(score) if np.isfinite(score) else None


def _count_feasible(candidates: Candidates) -> int:
    """Count the subsets within the spare children (a knapsack count; no subset is built)."""
    ways = [1] + [0] * candidates.spare
    for extra in candidates.extra:
        for used in range(candidates.spare, extra - 1, -1):
            ways[used] += ways[used - extra]
    return sum(ways)


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
    """Mean silhouette of each subset's partition; -inf where it is a single cluster."""
    return np.concatenate(
        [_block_scores(candidates, block) for block in _blocks(candidates, subsets)]
    )


def _blocks(candidates: Candidates, subsets: BoolArray) -> Iterator[BoolArray]:
    rows = max(1, BLOCK_WORK // candidates.work)
    for start in range(0, len(subsets), rows):
        yield subsets[start : start + rows]


def _block_scores(candidates: Candidates, subsets: BoolArray) -> FloatArray:
    kept, expanded = candidates.nearest
    child_count = kept.shape[1]
    decision = np.zeros((len(subsets), child_count), dtype=np.bool_)
    decision[:, list(candidates.open_positions)] = subsets
    away = np.where(decision[:, None, :], expanded, kept)  # [subset, depth, child]
    closest = away.argmin(axis=2)
    first = np.take_along_axis(away, closest[:, :, None], axis=2)[:, :, 0]
    np.put_along_axis(away, closest[:, :, None], np.inf, axis=2)
    second = away.min(axis=2)  # [subset, depth]

    child, depth = candidates.group_child, candidates.group_depth
    own_is_closest = closest[:, depth] == child  # [subset, group]
    other = np.where(own_is_closest, second[:, depth], first[:, depth])
    is_expanded = decision[:, child]
    other = np.where(is_expanded, np.minimum(other, candidates.between_parts), other)
    own = np.where(is_expanded, candidates.own_distance[1], candidates.own_distance[0])
    with np.errstate(invalid="ignore"):  # one single cluster: inf - a over inf
        silhouette = np.where(own < 0, 0.0, (other - own) / np.maximum(own, other))
    silhouette[np.isinf(other)] = -np.inf
    return np.asarray(silhouette @ candidates.weights)

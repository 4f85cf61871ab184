"""WordNet-guided coarsening by silhouette score (the paper's Algorithm 2; method, section 4).

Every internal node u, children first, may replace any subset S of its internal children by their
children; the subset whose partition of the leaves has the best mean silhouette wins. The scores of
all subsets factorise, so a subset touches no distance between leaves:

- leaves under different children of u meet in u, so the mean distance of a leaf to another cluster
  depends on the leaf's depth and the cluster's depths alone;
- a leaf's own mean distance a depends only on the decision for its own child of u;
- its distance b to the nearest other cluster is a minimum over the other children of u, each
  depending on that child's decision alone, and over the own child's parts if it is expanded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy.subsets import Candidates, best_subset
from fedgrain.taxonomy.tree import Taxonomy

FloatArray = NDArray[np.float64]

SINGLETONS = ("cohesive", "neutral")


@dataclass(frozen=True)
class Decision:
    """What happened at one internal node: the children merged into it, and why."""

    node: str
    merged: tuple[str, ...]
    score: float | None  # None: no partition could be scored, the node stays as it is
    original_score: float | None
    exact: bool


@dataclass(frozen=True)
class Coarsening:
    """The coarsened tree H with the decision at every node that had a choice."""

    taxonomy: Taxonomy
    decisions: tuple[Decision, ...]

    @property
    def exact(self) -> bool:
        """Whether every decision is the best over all subsets, and not the end of a search."""
        return all(decision.exact for decision in self.decisions)


def coarsen(taxonomy: Taxonomy, max_children: int, singletons: str = "cohesive") -> Coarsening:
    """Merge negligible internal nodes into their parents, at most ``max_children`` children each.

    ``singletons="cohesive"``: a cluster of one leaf scores 1, and a leaf's own mean distance counts
    the leaf itself. ``singletons="neutral"`` is Rousseeuw's textbook rule: it scores 0.
    """
    if max_children < 2:
        raise TaxonomyError(f"max_children must be at least 2, not {max_children}")
    if singletons not in SINGLETONS:
        raise TaxonomyError(f"singletons is one of {', '.join(SINGLETONS)}, not {singletons!r}")
    measure = _Measure(taxonomy)
    current = {int(u): [int(v) for v in taxonomy.children(int(u))] for u in taxonomy.internal}
    merged_away = np.zeros(len(taxonomy), dtype=np.bool_)
    decisions = []
    for u in taxonomy.internal[::-1].tolist():  # depth-first numbers reversed: children first
        candidates = _candidates(measure, current, u, max_children, singletons)
        if candidates is None:
            continue
        choice = best_subset(candidates)
        merged = [current[u][position] for position in choice.positions]
        decisions.append(
            Decision(
                node=taxonomy.ids[u],
                merged=tuple(taxonomy.ids[v] for v in merged),
                score=choice.score,
                original_score=choice.original_score,
                exact=choice.exact,
            )
        )
        merged_away[merged] = True
        parts = [current.pop(v) if v in merged else [v] for v in current[u]]
        current[u] = [node for part in parts for node in part]
    return Coarsening(taxonomy.keep(~merged_away), tuple(decisions))


class _Measure:
    """Sums of similarities W between leaves (root depth 1), by node and leaf depth."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        self.first, self.end = taxonomy.leaf_ranges
        self.size = (self.end - self.first).astype(np.float64)
        depths, self.depth_class = np.unique(taxonomy.depth[taxonomy.leaves], return_inverse=True)
        self.node_depth = taxonomy.depth.astype(np.float64) + 1.0
        # reciprocal[v, d]: sum over the leaves j under v of 1 / (d + d_j)    [nodes, depth classes]
        histogram = np.zeros((len(taxonomy), len(depths)))
        histogram[taxonomy.leaves, self.depth_class] = 1.0
        for node in range(len(taxonomy) - 1, 0, -1):
            histogram[taxonomy.parents[node]] += histogram[node]
        counted = depths.astype(np.float64) + 1.0
        self.reciprocal = histogram @ (1.0 / (counted[:, None] + counted[None, :]))
        self._within: dict[int, FloatArray] = {}

    def within(self, node: int) -> FloatArray:
        """For each leaf under a node, its summed similarity to all leaves under it, itself too.

        Built from the children's sums; asked for children first, so it never recurses deeply.
        """
        if node not in self._within:
            children = self.taxonomy.children(node).tolist()
            parts = []
            for child in children:
                depths = self.depth_class[self.first[child] : self.end[child]]
                outside = self.reciprocal[node, depths] - self.reciprocal[child, depths]
                parts.append(self.within(child) + 2.0 * self.node_depth[node] * outside)
            self._within[node] = np.concatenate(parts) if parts else np.ones(1)
        return self._within[node]

    def distance(
        self, meet_depth: FloatArray | float, cluster: int, depths: NDArray[np.intp]
    ) -> FloatArray:
        """Mean distance of leaves of some depth classes to a cluster they meet at a given depth."""
        similarity = 2.0 * meet_depth * self.reciprocal[cluster, depths] / self.size[cluster]
        return np.asarray(1.0 - similarity, dtype=np.float64)


def _candidates(
    measure: _Measure,
    current: Mapping[int, Sequence[int]],
    u: int,
    max_children: int,
    singletons: str,
) -> Candidates | None:
    """Tables for all subsets at u; None where there is nothing to decide."""
    children = current[u]
    spare = max_children - len(children)
    extra = [len(current[v]) - 1 if v in current else -1 for v in children]
    open_positions = [p for p, more in enumerate(extra) if 0 <= more <= spare]
    measure.within(u)  # also when nothing is decided here: the parent builds on it
    if spare < 0 or not any(v in current for v in children):
        return None
    lower, upper = measure.first[u], measure.end[u]
    present, depth_index = np.unique(measure.depth_class[lower:upper], return_inverse=True)
    nearest = np.full((2, len(present), len(children)), np.inf)  # [expanded, depth, child]
    leaf_rows = []
    for position, v in enumerate(children):
        parts = current[v] if position in open_positions else []
        meet = measure.node_depth[u]
        nearest[0, :, position] = measure.distance(meet, v, present)
        for part in parts:
            away = measure.distance(meet, part, present)
            nearest[1, :, position] = np.minimum(nearest[1, :, position], away)
        own = slice(measure.first[v] - lower, measure.end[v] - lower)
        kept = _own_distance(measure, v, singletons)
        if parts:
            split = np.concatenate([_own_distance(measure, part, singletons) for part in parts])
            between = np.concatenate(list(_nearest_part(measure, parts)))
        else:
            split, between = kept, np.full(len(kept), np.inf)
        columns = (np.full(len(kept), position), depth_index[own], kept, split, between)
        leaf_rows.append(np.stack(columns, axis=1))
    groups, counts = np.unique(np.concatenate(leaf_rows), axis=0, return_counts=True)
    return Candidates(
        nearest=nearest,
        group_child=groups[:, 0].astype(np.intp),
        group_depth=groups[:, 1].astype(np.intp),
        own_distance=groups[:, 2:4].T.copy(),
        between_parts=groups[:, 4],
        weights=counts / counts.sum(),
        open_positions=tuple(open_positions),
        extra=tuple(extra[p] for p in open_positions),
        spare=spare,
    )


def _own_distance(measure: _Measure, cluster: int, singletons: str) -> FloatArray:
    """Mean distance of each leaf to its own cluster; -1 marks a singleton that scores 0."""
    size, similar = measure.size[cluster], measure.within(cluster)
    if singletons == "cohesive":
        return np.asarray((size - similar) / size)
    return np.asarray((size - similar) / (size - 1)) if size > 1 else np.full(1, -1.0)


def _nearest_part(measure: _Measure, parts: Sequence[int]) -> Iterator[FloatArray]:
    """For each part of an expanded child, its leaves' mean distance to the nearest other part."""
    everyone = np.array(parts, dtype=np.int32)
    for number, part in enumerate(parts):
        depths = measure.depth_class[measure.first[part] : measure.end[part]]
        present, index = np.unique(depths, return_inverse=True)
        others = np.delete(everyone, number)
        if not len(others):
            yield np.full(len(depths), np.inf)
            continue
        meet = measure.taxonomy.lca_depth(everyone[number], others) + 1.0
        similar = measure.reciprocal[np.ix_(others, present)] / measure.size[others, None]
        yield (1.0 - 2.0 * meet[:, None] * similar).min(axis=0)[index]

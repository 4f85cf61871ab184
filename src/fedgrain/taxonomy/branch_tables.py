"""The tables that coarsening keeps for every branch (a node with children).

Leaves with the same parent stay alike whatever is merged above them, so they are stored once, as a
family. Families are in post-order of their parents, so those below a branch form a slice.

In W the root has depth 1. The depth of the lowest common ancestor of two leaves i, j is then the
number of their common ancestors, and each of these adds 2 / (d_i + d_j) to their similarity. So
sums of similarities need one sum per branch and depth, and nothing per pair of leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import repeat
from math import inf

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy.silhouette import (
    BoolArray,
    Candidates,
    FloatArray,
    Form,
    Positions,
    with_nearest,
)
from fedgrain.taxonomy.tree import Taxonomy

IntArray = NDArray[np.signedinteger]


@dataclass(slots=True)
class BranchTables:
    """Tables over the branches, in the order of their nodes, and over the families.

    Depths are those of the tree, with the root at 0; a level is the depth of a branch. The
    closeness of a leaf at depth d (in W) to a cluster is the mean of 2 / (d + d_j) over the
    cluster's leaves j. If their lowest common ancestor has depth m in W, the leaf's mean distance
    to the cluster is 1 - m * closeness. For siblings at level k, m is k.
    """

    nodes: list[int]
    levels: list[int]
    children: list[list[int]]  # the children that are branches
    leaf_children: list[int]  # number of children that are leaves
    leaf_counts: list[int]  # number of leaves below
    depths: list[slice]  # the range of depths of these leaves
    families: list[slice]  # the families below
    family_depths: list[int]  # [family]
    family_sizes: list[int]  # [family]
    closeness: FloatArray  # [branch, depth]
    away: FloatArray  # [branch, depth]: distance to it from a leaf under one of its siblings
    leaf_closeness: FloatArray  # [level, depth]: to a leaf child of a branch at this level
    away_from_leaf: FloatArray  # [level, depth]: distance to it from under the leaf's siblings
    away_from_leaves: FloatArray  # [level, depth]: distance to it from under the branch's siblings
    own_distances: list[list[float]]  # [branch][family below]: mean distance inside the branch
    alone: float  # the same for a leaf that is its own cluster

    # for each decided branch, until its parent is decided
    parts: dict[int, Form] = field(default_factory=dict)  # its expanded form
    part_counts: dict[int, int] = field(default_factory=dict)
    part_closeness: dict[int, list[float]] = field(default_factory=dict)  # [depth]: of the closest

    def candidates(self, u: int, max_children: int) -> Candidates:
        """Return the forms that the children of a branch can have."""
        children = self.children[u]
        spare = max_children - len(children) - self.leaf_children[u]
        kept = [self._as_one(v) for v in children]
        if self.leaf_children[u]:
            kept.append(self._own_leaves(u, self.away_from_leaf))
        opened = [p for p, v in enumerate(children) if self.part_counts[v] - 1 <= spare]
        depths, families = self.depths[u], self.families[u]
        return Candidates(
            kept,
            {p: self.parts[children[p]] for p in opened},
            [self.part_counts[children[p]] - 1 for p in opened],
            spare,
            depths,
            self.leaf_counts[u],
            (depths.stop - depths.start) * len(kept) + families.stop - families.start,
        )

    def _as_one(self, v: int) -> Form:
        """Return the form of a branch as one cluster."""
        depths = self.family_depths[self.families[v]]
        sizes = self.family_sizes[self.families[v]]
        leaves = list(zip(depths, self.own_distances[v], repeat(inf), sizes))
        return self.away[v].tolist(), leaves

    def _own_leaves(self, u: int, away: FloatArray) -> Form:
        """Return the form of a branch's leaf children, expanded, with their distances ``away``."""
        level, count = self.levels[u], self.leaf_children[u]
        beside = 1.0 / (level + 2) if count > 1 else inf  # in W the parent has depth level + 1
        return away[level].tolist(), [(level + 1, self.alone, beside, count)]

    def settle(self, u: int, candidates: Candidates, merged: Positions) -> None:
        """Store the expanded form of a branch after its decision, and drop that of its children."""
        leaves = []
        forms = candidates.forms(merged)
        for (away, alike), first, second in with_nearest(forms, candidates.depths):
            for depth, own, beside, count in alike:
                other = first[depth]
                if other == away[depth]:
                    other = second[depth]
                leaves.append((depth, own, beside if beside < other else other, count))
        children = self.children[u]
        rows = [self.closeness[v].tolist() for v in children]
        parts = len(children) + self.leaf_children[u]
        for position in merged:
            rows[position] = self.part_closeness[children[position]]
            parts += self.part_counts[children[position]] - 1
        if self.leaf_children[u]:
            rows.append(self.leaf_closeness[self.levels[u]].tolist())
        closest = list(map(max, *rows)) if len(rows) > 1 else rows[0]
        meet = self.levels[u]
        self.parts[u] = [1.0 - meet * close for close in closest], leaves
        self.part_counts[u] = parts
        self.part_closeness[u] = closest
        for v in children:
            del self.parts[v], self.part_counts[v], self.part_closeness[v]

    def settle_leaves(self, u: int) -> None:
        """Store the expanded form of a branch whose children are all leaves: nothing to decide."""
        self.parts[u] = self._own_leaves(u, self.away_from_leaves)
        self.part_counts[u] = self.leaf_children[u]
        self.part_closeness[u] = self.leaf_closeness[self.levels[u]].tolist()


def undecided(taxonomy: Taxonomy, *, cohesive: bool) -> BranchTables:
    """Return the tables of a tree of two or more nodes, with no branch decided yet.

    ``cohesive`` sets the score of a cluster of one leaf: see :func:`fedgrain.taxonomy.coarsen`.
    """
    nodes = taxonomy.internal
    levels = taxonomy.depth[nodes].astype(np.int64)
    leaf_children = np.bincount(taxonomy.parents[taxonomy.leaves], minlength=len(taxonomy))[nodes]
    past = taxonomy.subtree_end[nodes] - levels  # [branch]: number of nodes up to it in post-order
    homes = np.flatnonzero(leaf_children)
    homes = homes[np.argsort(past[homes])]  # [family]: the branch that is its parent
    first = np.searchsorted(past[homes], nodes - levels, side="right")
    end = np.searchsorted(past[homes], past, side="right")
    depths, sizes = levels[homes] + 1, leaf_children[homes]

    histogram = _histogram(depths, sizes, first, end)  # [branch, depth]: number of leaves
    leaf_counts = histogram.sum(axis=1)
    counted = np.arange(1.0, histogram.shape[1] + 1.0)
    of_leaf = 2.0 / (counted[:, None] + counted)  # [depth of the leaf, depth]: closeness
    summed = histogram @ of_leaf  # [branch, depth]
    closeness = summed / leaf_counts[:, None]
    own = _own_distances(summed, leaf_counts, levels, first, end, depths, cohesive=cohesive)
    return BranchTables(
        nodes=nodes.tolist(),
        levels=levels.tolist(),
        children=_children(taxonomy, nodes),
        leaf_children=leaf_children.tolist(),
        leaf_counts=leaf_counts.astype(np.int64).tolist(),
        depths=_spans(histogram > 0),
        families=list(map(slice, first.tolist(), end.tolist())),
        family_depths=depths.tolist(),
        family_sizes=sizes.tolist(),
        closeness=closeness,
        away=1.0 - levels[:, None] * closeness,
        leaf_closeness=of_leaf[1:],
        away_from_leaf=1.0 - counted[:-1, None] * of_leaf[1:],
        away_from_leaves=1.0 - (counted[:-1, None] - 1.0) * of_leaf[1:],
        own_distances=own,
        alone=0.0 if cohesive else -1.0,
    )


def _histogram(depths: IntArray, sizes: IntArray, first: IntArray, end: IntArray) -> FloatArray:
    """Return the number of leaves of the families first:end, by depth."""
    up_to = np.zeros((len(depths) + 1, depths.max() + 1))  # [number of families, depth]
    up_to[np.arange(1, len(up_to)), depths] = sizes
    up_to = up_to.cumsum(axis=0)
    return np.asarray(up_to[end] - up_to[first])


def _children(taxonomy: Taxonomy, nodes: IntArray) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in range(len(nodes))]
    above = np.searchsorted(nodes, taxonomy.parents[nodes[1:]])
    for child, parent in enumerate(above.tolist(), start=1):
        children[parent].append(child)
    return children


def _spans(mask: BoolArray) -> list[slice]:
    """Return for each row the slice from the first to the last True."""
    end = mask.shape[1] - mask[:, ::-1].argmax(axis=1)
    return list(map(slice, mask.argmax(axis=1).tolist(), end.tolist()))


def _own_distances(
    summed: FloatArray,
    leaf_counts: FloatArray,
    levels: IntArray,
    first: IntArray,
    end: IntArray,
    depths: IntArray,
    *,
    cohesive: bool,
) -> list[list[float]]:
    """Return per branch and family below it the mean distance of a leaf to the branch's leaves.

    A branch at level k has k ancestors, which all leaves below it share. The other ancestors of a
    leaf are the branches from there down to its parent, and the leaf itself, which it shares with
    no other leaf.
    """
    below = end - first
    ends = below.cumsum()
    branch = np.repeat(np.arange(len(below)), below)  # [pair of a branch and a family below it]
    family = np.arange(len(branch)) - np.repeat(ends - below - first, below)
    level, depth, size = levels[branch], depths[family], leaf_counts[branch]
    here = summed[branch, depth]
    downwards = np.zeros((levels.max() + 1, len(depths)))
    downwards[level, family] = here
    downwards = downwards[::-1].cumsum(axis=0)[::-1]
    similarity = level * here + downwards[level, family] + 1.0 / (depth + 1)
    if cohesive:
        own = np.maximum(size - similarity, 0.0) / size  # never negative: that would mean "neutral"
    else:
        own = np.where(size > 1, (size - similarity) / np.maximum(size - 1, 1), -1.0)
    listed = own.tolist()
    return [listed[a:b] for a, b in zip((ends - below).tolist(), ends.tolist(), strict=True)]

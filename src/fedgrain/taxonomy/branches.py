"""What coarsening knows about the branches (nodes with children) before and after each decision.

Leaves that hang from one node stay alike whatever is merged above them: such a family is counted as
one. Families come in post-order of their nodes, so those under a branch are a slice.

Depths count the root as 1 in W, so the depth at which two leaves i, j meet is the number of their
common ancestors, and each of these adds 2 / (d_i + d_j) to their similarity. Sums of similarities
therefore need, for every branch, one sum over its leaves per depth, and nothing for pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from math import inf

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy.subsets import Candidates, Form, Leaves, Positions, with_nearest
from fedgrain.taxonomy.tree import IntArray, Taxonomy

FloatArray = NDArray[np.float64]


@dataclass(slots=True)
class Branches:
    """Tables over branches, by their number; the last three change as branches are decided.

    Depths are those of the tree, the root at 0.
    """

    nodes: list[int]
    levels: list[int]  # depth of the branch
    children: list[list[int]]  # the branches among its children
    child_counts: list[int]  # leaves among them too
    leaf_counts: list[int]
    depths: list[slice]  # at which leaves lie below
    first: list[int]  # the families below are first:end
    end: list[int]
    family_depths: list[int]  # [family]
    family_sizes: list[int]  # [family]
    closeness: list[list[float]]  # [branch][depth]: mean over its leaves j of 2 / (depth + d_j)
    away: list[list[float]]
    own: list[float]
    offset: list[int]
    among_siblings: list[list[float]]  # [level][depth]: distance to a leaf that hangs from level

    as_parts: list[Form]  # expanded beside its siblings; its own leaves alone if not yet decided
    part_counts: list[int]  # number of these parts
    part_closeness: list[list[float]]  # [branch][depth]: of the part that is closest

    def as_one(self, v: int) -> Form:
        first, end, offset = self.first[v], self.end[v], self.offset[v]
        own = self.own[offset:offset+end-first]
        return self.away[v], list(zip(self.family_depths[first:end], own, repeat(inf), self.family_sizes[first:end]))

    def candidates(self, u: int, max_children: int) -> Candidates:
        """Lay out the forms of the children of a branch; its own leaves have one form."""
        children = self.children[u]
        spare = max_children - self.child_counts[u]
        kept = [self.as_one(v) for v in children]
        if self.part_counts[u]:
            kept.append((self.among_siblings[self.levels[u]], self.as_parts[u][1]))
        opened = [p for p, v in enumerate(children) if self.part_counts[v] - 1 <= spare]
        depths = self.depths[u]
        return Candidates(
            kept,
            {p: self.as_parts[children[p]] for p in opened},
            [self.part_counts[children[p]] - 1 for p in opened],
            spare,
            depths,
            self.leaf_counts[u],
            (depths.stop - depths.start) * len(kept) + self.end[u] - self.first[u],
        )

    def settle(self, u: int, candidates: Candidates, merged: Positions) -> None:
        """Fix the parts of a branch after its decision, and what its leaves see of them."""
        settled = []
        forms = candidates.forms(merged)
        for (away, leaves), first, second in with_nearest(forms, candidates.depths):
            for depth, own, beside, count in leaves:
                other = first[depth]
                if other == away[depth]:
                    other = second[depth]
                settled.append((depth, own, beside if beside < other else other, count))
        children = self.children[u]
        rows = [self.closeness[v] for v in children]
        rows.append(self.part_closeness[u])
        count = self.child_counts[u]
        for position in merged:
            rows[position] = self.part_closeness[children[position]]
            count += self.part_counts[children[position]] - 1
        closest = list(map(max, *rows))
        meet = self.levels[u]  # of the parent, the root at 1
        self.as_parts[u] = [1.0 - meet * close for close in closest], settled
        self.part_counts[u] = count
        self.part_closeness[u] = closest


def undecided(taxonomy: Taxonomy, *, cohesive: bool) -> Branches:
    """Return the tables of a tree of two nodes or more.

    Branches that have leaves for children only have nothing to decide: they are settled.
    """
    nodes = taxonomy.internal
    levels = taxonomy.depth[nodes]
    leaf_children = np.bincount(taxonomy.parents[taxonomy.leaves], minlength=len(taxonomy))[nodes]
    past = taxonomy.subtree_end[nodes] - levels  # in post-order, one past the branch
    homes = np.flatnonzero(leaf_children)
    homes = homes[np.argsort(past[homes])]
    depths = levels[homes] + 1
    counts = leaf_children[homes]
    first = np.searchsorted(past[homes], nodes - levels, side="right")
    end = np.searchsorted(past[homes], past, side="right")

    up_to = np.zeros((len(homes) + 1, depths.max() + 1))
    up_to[np.arange(1, len(up_to)), depths] = counts
    up_to = up_to.cumsum(axis=0)
    histogram = up_to[end] - up_to[first]  # [branches, depths]: number of leaves
    counted = np.arange(1.0, up_to.shape[1] + 1.0)
    of_leaf = 2.0 / (counted[:, None] + counted)  # [depths, depths]: closeness of a leaf
    summed = histogram @ of_leaf  # [branches, depths]
    sizes = histogram.sum(axis=1)
    closeness = summed / sizes[:, None]
    there = histogram > 0
    top = there.argmax(axis=1).tolist()
    bottom = (there.shape[1] - there[:, ::-1].argmax(axis=1)).tolist()

    own, offset = _own_distances(summed, sizes, levels, first, end, depths, cohesive=cohesive)
    meets = counted[:-1, None]
    from_above = (1.0 - (meets - 1.0) * of_leaf[1:]).tolist()
    listed = levels.tolist()
    part_counts = leaf_children.tolist()
    rows = of_leaf.tolist()
    beside = np.where(leaf_children > 1, 1.0 / (levels + 2), inf).tolist()
    alone = 0.0 if cohesive else -1.0
    leaves = zip((levels + 1).tolist(), repeat(alone), beside, part_counts)
    nowhere = [-inf] * len(counted)
    return Branches(
        nodes=nodes.tolist(),
        levels=listed,
        children=_children(taxonomy, nodes),
        child_counts=taxonomy.child_counts[nodes].tolist(),
        leaf_counts=sizes.astype(np.int64).tolist(),
        depths=list(map(slice, top, bottom)),
        first=first.tolist(),
        end=end.tolist(),
        family_depths=depths.tolist(),
        family_sizes=counts.tolist(),
        closeness=closeness.tolist(),
        away=(1.0 - levels[:, None] * closeness).tolist(),
        own=own,
        offset=offset,
        among_siblings=(1.0 - meets * of_leaf[1:]).tolist(),
        as_parts=[(from_above[level], [alike]) for level, alike in zip(listed, leaves)],
        part_counts=part_counts,
        part_closeness=[rows[level + 1] if count else nowhere for level, count in zip(listed, part_counts)],
    )


def _children(taxonomy, branches) -> list[list[int]]:
    above = np.searchsorted(branches, taxonomy.parents[branches[1:]])
    children = [[] for _ in branches.tolist()]
    for child, parent in enumerate(above.tolist(), start=1):
        children[parent].append(child)
    return children


def _own_distances(summed, sizes, levels, first, end, depths, *, cohesive):
    below = end - first
    branch = np.repeat(np.arange(len(below)), below)
    offset = np.cumsum(below) - below
    family = np.arange(len(branch)) - np.repeat(offset - first, below)
    level = levels[branch]
    depth = depths[family]
    here = summed[branch, depth]
    downwards = np.zeros((levels.max() + 1, len(depths)))
    downwards[level, family] = here
    downwards = downwards[::-1].cumsum(axis=0)[::-1]
    inside = downwards[level, family] + level * here + 1.0 / (depth + 1)
    size = sizes[branch]
    if cohesive:
        own = np.maximum(size - inside, 0.0) / size
    else:
        own = np.where(size > 1, (size - inside) / np.maximum(size - 1, 1), -1.0)
    return own.tolist(), offset.tolist()

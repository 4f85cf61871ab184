"""What coarsening knows about the leaves: a family is all leaves that hang from one node.

They stay alike whatever is merged above them, so they are counted as one. Families are numbered as
their nodes are, depth first: those under a branch (a node with children) are a slice.

Depths count the root as 1 in W, so two leaves at depths d, e have min(d, e) ancestors or fewer in
common, as many as the depth of the node they meet in, and each adds 2 / (d + e) to their
similarity. Summed over the leaves of a cluster this needs sums over the leaves below each node
alone, and nothing for pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy.tree import Taxonomy

FloatArray = NDArray[np.float64]


@dataclass(slots=True)
class Families:
    """Tables over branches and families; the last four change as branches are decided.

    Depths are those of the tree, the root at 0, but for ``meets``, where it is at 1 as in W.
    """

    branches: list[int]  # [branch]: its node
    children: list[list[int]]  # [branch]: its branches; the branch itself first for its own leaves
    first: list[int]  # [branch]: the families under it are first:end
    end: list[int]
    meets: list[int]  # [branch]: the depth at which leaves under different children of it meet
    sizes: list[int]  # [branch]: number of leaves under it
    closeness: list[list[float]]  # [branch][depth]: mean of 2 / (depth + d_j) over its leaves j
    own_distances: list[list[float]]  # [branch][family under it]: of its leaves to the branch's
    depths: list[int]  # [family]
    counts: list[int]  # [family]: number of leaves

    parts: list[int]  # [branch]: number of clusters that its children are
    nearest_part: list[list[float]]  # [branch][depth]: the largest closeness of one of them
    alone: list[float]  # [family]: distance of its leaves to their own cluster
    beside: list[float]  # [family]: and to the nearest other cluster


def leaf_families(taxonomy: Taxonomy, *, cohesive: bool) -> Families:
    """Return the tables of a tree of two nodes or more, all branches undecided.

    What changes is right from the start for the branches that have leaves for children only.
    """
    branches = taxonomy.internal
    leaf_children = np.bincount(taxonomy.parents[taxonomy.leaves], minlength=len(taxonomy))
    homes = np.flatnonzero(leaf_children)
    depths = taxonomy.depth[homes] + 1
    counts = leaf_children[homes]
    first = np.searchsorted(homes, branches)
    end = np.searchsorted(homes, taxonomy.subtree_end[branches])

    up_to = np.zeros((len(homes) + 1, depths.max() + 1))
    up_to[np.arange(1, len(up_to)), depths] = counts
    up_to = up_to.cumsum(axis=0)
    histogram = up_to[end] - up_to[first]  # [branches, depths]: number of leaves
    counted = np.arange(1.0, up_to.shape[1] + 1.0)
    of_leaf = 2.0 / (counted[:, None] + counted)  # [depths, depths]: closeness of a leaf
    summed = histogram @ of_leaf  # [branches, depths]
    sizes = histogram.sum(axis=1)
    levels = taxonomy.depth[branches]
    own = _own_distances(summed, sizes, levels, first, end, depths, cohesive=cohesive)
    nodes = branches.tolist()
    rows = of_leaf.tolist()
    return Families(
        branches=nodes,
        children=_children(taxonomy, branches, leaf_children),
        first=first.tolist(),
        end=end.tolist(),
        meets=(levels + 1).tolist(),
        sizes=sizes.astype(np.int64).tolist(),
        closeness=(summed / sizes[:, None]).tolist(),
        own_distances=own,
        depths=depths.tolist(),
        counts=counts.tolist(),
        parts=leaf_children[branches].tolist(),
        nearest_part=[rows[level + 1] for level in levels.tolist()],
        alone=[0.0 if cohesive else -1.0] * len(homes),
        beside=np.where(counts > 1, 1.0 / (depths + 1), np.inf).tolist(),
    )


def _children(taxonomy, branches, leaf_children) -> list[list[int]]:
    children = [[u] if leaves else [] for u, leaves in enumerate(leaf_children[branches].tolist())]
    above = np.searchsorted(branches, taxonomy.parents[branches[1:]])
    for child, parent in enumerate(above.tolist(), start=1):
        children[parent].append(child)
    return children


def _own_distances(summed, sizes, levels, first, end, depths, *, cohesive):
    below = end - first
    branch = np.repeat(np.arange(len(below)), below)
    offset = np.cumsum(below) - below
    family = np.arange(len(branch)) - np.repeat(offset - first, below)
    level = levels[branch]
    here = summed[branch, depths[family]]
    downwards = np.zeros((levels.max() + 1, len(depths)))
    downwards[level, family] = here
    downwards = downwards[::-1].cumsum(axis=0)[::-1]
    inside = downwards[level, family] + level * here + 1.0 / (depths + 1)[family]
    size = sizes[branch]
    if cohesive:
        own = np.maximum(size - inside, 0.0) / size
    else:
        own = np.where(size > 1, (size - inside) / np.maximum(size - 1, 1), -1.0)
    flat = own.tolist()
    return [flat[a : a + n] for a, n in zip(offset.tolist(), below.tolist(), strict=True)]

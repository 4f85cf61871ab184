"""A tree as arrays, and the computations on them (method, section 1).

Nodes are numbered depth first: a parent comes before its children, and the subtree of a node is the
slice ``node:subtree_end[node]``. A sum over a subtree is a difference of two running sums. Sweeps
down or up the tree handle one level at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy.order import depth_and_subtree_end
from fedgrain.taxonomy.similarity import lca_depth_matrix, lca_depth_table, wu_palmer_table

IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
Numbers = TypeVar("Numbers", np.int64, np.float64)


class TreeArrays:
    """The numbers of a tree; :class:`~fedgrain.taxonomy.tree.Taxonomy` adds ids and names."""

    parents: IntArray  # [nodes], -1 for the root
    depth: IntArray  # [nodes], 0 for the root
    subtree_end: IntArray  # [nodes], the subtree of v is v:subtree_end[v]
    leaves: IntArray  # [leaves], ascending

    def __init__(self, parents: Sequence[int] | IntArray) -> None:
        """Take the parents of nodes that are in depth-first order."""
        self.parents = np.array(parents, dtype=np.int32)
        if self.parents[0] != -1 or np.any(self.parents[1:] < 0):
            raise TaxonomyError("the first node, and only it, must be the root (parent -1)")
        if np.any(self.parents >= np.arange(len(self))):
            raise TaxonomyError("a parent must come before its children")
        self.depth, self.subtree_end = depth_and_subtree_end(self.parents)
        self.leaves = np.flatnonzero(self.is_leaf(np.arange(len(self)))).astype(np.int32)
        for array in (self.parents, self.depth, self.subtree_end, self.leaves):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def root(self) -> int:
        """The number of the root node, always 0."""
        return 0

    def is_leaf(self, nodes: Any) -> Any:
        """Return whether a node is a leaf; takes one number or an array of numbers."""
        return self.subtree_end[nodes] == nodes + 1

    @property
    def internal(self) -> IntArray:
        """The nodes with children, in ascending order: the branches of the tree."""
        return np.flatnonzero(~self.is_leaf(np.arange(len(self)))).astype(np.int32)

    @property
    def leaf_counts(self) -> IntArray:
        """Number of leaves under each node (1 for a leaf)."""
        first, end = self.leaf_ranges
        return end - first

    @property
    def leaf_ranges(self) -> tuple[IntArray, IntArray]:
        """Per node, the start and end of the slice of ``leaves`` under it."""
        nodes = np.arange(len(self))
        first = np.searchsorted(self.leaves, nodes).astype(np.int32)
        end = np.searchsorted(self.leaves, self.subtree_end).astype(np.int32)
        return first, end

    # children

    @property
    def child_counts(self) -> IntArray:
        """Number of children per node."""
        return np.bincount(self.parents[1:], minlength=len(self)).astype(np.int32)

    @cached_property
    def by_parent(self) -> tuple[IntArray, IntArray]:
        """All nodes but the root grouped by parent, and where each parent's group starts."""
        order = np.argsort(self.parents[1:], kind="stable").astype(np.int32) + 1
        start = np.concatenate(([0], np.cumsum(self.child_counts))).astype(np.int32)
        return _read_only(order), _read_only(start)

    def children(self, node: int) -> IntArray:
        """Return the children of a node, in order of their numbers."""
        order, start = self.by_parent
        return order[start[node] : start[node + 1]]

    def past_single_children(self) -> NDArray[np.int64]:
        """For each node, the first node from it downwards that does not have exactly one child."""
        ends = np.flatnonzero(self.child_counts != 1)
        # depth first, so an only child has the next number
        return np.asarray(ends[np.searchsorted(ends, np.arange(len(self)))], dtype=np.int64)

    # paths

    @cached_property
    def levels(self) -> tuple[NDArray[np.int64], ...]:
        """The nodes of each depth, from the root down, ascending."""
        order = _read_only(np.argsort(self.depth, kind="stable"))
        return tuple(np.split(order, np.cumsum(np.bincount(self.depth))[:-1]))

    @cached_property
    def ancestor_table(self) -> NDArray[np.int64]:
        """The ancestor-or-self of each node at each depth [nodes, depths]; -1 below the node."""
        table = np.full((len(self), len(self.levels)), -1, dtype=np.int64)
        table[:, 0] = 0
        for depth, nodes in enumerate(self.levels[1:], start=1):
            table[nodes] = table[self.parents[nodes]]
            table[nodes, depth] = nodes
        return _read_only(table)

    def path(self, node: int) -> IntArray:
        """Return the nodes from the root down to ``node``, both included."""
        upwards = [node]
        while self.parents[upwards[-1]] >= 0:
            upwards.append(int(self.parents[upwards[-1]]))
        return np.array(upwards[::-1], dtype=np.int32)

    def is_ancestor(self, upper: Any, lower: Any) -> Any:
        """Return whether ``upper`` is ``lower`` or an ancestor of it; numbers or arrays."""
        return (upper <= lower) & (lower < self.subtree_end[upper])

    def ancestors_mask(self) -> BoolArray:
        """Return a mask [node, other]: whether ``other`` is ``node`` or one of its ancestors."""
        nodes = np.arange(len(self))
        return np.asarray(self.is_ancestor(nodes[None, :], nodes[:, None]), dtype=np.bool_)

    # sweeps

    def sums_below(self, values: NDArray[Numbers]) -> NDArray[Numbers]:
        """Sum values [..., nodes] over each node's subtree, itself included."""
        running = np.zeros((*values.shape[:-1], len(self) + 1), dtype=values.dtype)
        np.cumsum(values, axis=-1, out=running[..., 1:])
        return np.asarray(running[..., self.subtree_end] - running[..., :-1])

    def sums_along_paths(self, values: NDArray[Numbers]) -> NDArray[Numbers]:
        """Sum values [..., nodes] over each node's path from the root, both ends included."""
        sums = values.copy()
        for level in self.levels[1:]:
            sums[..., level] += sums[..., self.parents[level]]
        return sums

    def on_paths_to_leaves(self, leaves: BoolArray) -> BoolArray:
        """Mark all nodes on the paths to marked leaves: [..., leaves] to [..., nodes]."""
        counts = np.zeros((*leaves.shape[:-1], len(self)), dtype=np.int64)
        counts[..., self.leaves] = leaves
        return np.asarray(self.sums_below(counts) > 0)

    def nearest(self, kept: BoolArray) -> IntArray:
        """Return the nearest kept ancestor-or-self of each node: masks [..., nodes] to nodes.

        If no ancestor is kept, this is the root.
        """
        nearest = np.where(kept, np.arange(len(self), dtype=np.int32), np.int32(0))
        for level in self.levels[1:]:
            above = nearest[..., self.parents[level]]
            nearest[..., level] = np.where(kept[..., level], nearest[..., level], above)
        return nearest

    def close_upwards(self, marked: BoolArray) -> BoolArray:
        """Drop every marked node [..., nodes] with an ancestor that is not marked."""
        closed = marked.copy()
        for level in self.levels[1:]:
            closed[..., level] &= closed[..., self.parents[level]]
        return closed

    @cached_property
    def heights(self) -> NDArray[np.int64]:
        """The number of edges from each node down to its deepest leaf."""
        height = np.zeros(len(self), dtype=np.int64)
        for nodes in self.levels[:0:-1]:
            np.maximum.at(height, self.parents[nodes], height[nodes] + 1)
        return _read_only(height)

    # pairs

    def lca(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
        """Return the lowest common ancestor of a[i] and b[i], by walking up from a."""
        upwards, below = (np.array(x, np.int64, order="C") for x in np.broadcast_arrays(a, b))
        climbing, targets = upwards.reshape(-1), below.reshape(-1)
        apart = np.arange(len(climbing))
        while apart.size:
            apart = apart[~self.is_ancestor(climbing[apart], targets[apart])]
            climbing[apart] = self.parents[climbing[apart]]
        return upwards

    def lca_depth(self, a: NDArray[Any], b: NDArray[Any]) -> IntArray:
        """Return the depth of the lowest common ancestor of a[i] and b[i]."""
        return self.depth[self.lca(a, b)]

    def lca_depths(self) -> IntArray:
        """Return the depth of the lowest common ancestor for all pairs of nodes [nodes, nodes]."""
        return lca_depth_matrix(self.parents, self.depth, self.subtree_end)

    def wu_palmer(self, *, root_depth: int) -> NDArray[np.float64]:
        """Return the Wu-Palmer similarity of all pairs of nodes (method, section 3).

        Metrics use ``root_depth=0``; the similarity matrix W of coarsening and knowledge uses
        ``root_depth=1``.
        """
        return wu_palmer_table(self.lca_depths(), self.depth, self.depth, root_depth=root_depth)

    def wu_palmer_of(
        self, rows: IntArray, columns: IntArray, *, root_depth: int
    ) -> NDArray[np.float64]:
        """Return part of :meth:`wu_palmer` [rows, columns]; ``columns`` must be ascending."""
        lca = lca_depth_table(self.parents, self.depth, self.subtree_end, rows, columns)
        return wu_palmer_table(lca, self.depth[rows], self.depth[columns], root_depth=root_depth)


Entries = TypeVar("Entries", bound=np.generic)


def _read_only(array: NDArray[Entries]) -> NDArray[Entries]:
    array.flags.writeable = False
    return array

"""The class hierarchy as arrays (method, section 1): one immutable tree.

Nodes are numbered depth first, children by id, so that a parent comes before its children, the
subtree of a node is the slice ``node:subtree_end[node]``, and the numbers depend on the content
alone, not on the order of a file or a set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy.edges import single_parents, single_root
from fedgrain.taxonomy.order import depth_and_subtree_end, depth_first
from fedgrain.taxonomy.similarity import (
    lca_depth_matrix,
    lca_depth_of_pairs,
    lca_depth_table,
    wu_palmer_table,
)

IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


class Taxonomy:
    """An immutable tree of classes. Build one with :meth:`from_edges` or read it from a file.

    >>> tree = Taxonomy.from_edges([("animal", "bird"), ("animal", "cat"), ("bird", "kite")])
    >>> tree.ids
    ('animal', 'bird', 'kite', 'cat')
    >>> [tree.ids[leaf] for leaf in tree.leaves]
    ['kite', 'cat']
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    parents: IntArray  # [nodes], -1 for the root
    depth: IntArray  # [nodes], 0 for the root
    subtree_end: IntArray  # [nodes], the subtree of v is v:subtree_end[v]
    leaves: IntArray  # [leaves], ascending

    def __init__(
        self, ids: Sequence[str], parents: Sequence[int] | IntArray, names: Sequence[str]
    ) -> None:
        """Take nodes already in depth-first order, children by id; :meth:`from_edges` sorts."""
        self.ids = tuple(ids)
        self.names = tuple(names)
        self.parents = np.array(parents, dtype=np.int32)
        count = len(self.ids)
        if not count or len(self.names) != count or self.parents.shape != (count,):
            raise TaxonomyError("a taxonomy needs at least one node, each with a parent and a name")
        if self.parents[0] != -1 or np.any(self.parents[1:] < 0):
            raise TaxonomyError("the first node, and only it, must be the root (parent -1)")
        if np.any(self.parents >= np.arange(count)):
            raise TaxonomyError("a parent must come before its children")
        self.depth, self.subtree_end = depth_and_subtree_end(self.parents)
        is_leaf = self.subtree_end == np.arange(1, count + 1)
        self.leaves = np.flatnonzero(is_leaf).astype(np.int32)
        for array in (self.parents, self.depth, self.subtree_end, self.leaves):
            array.flags.writeable = False

    def __setattr__(self, name: str, value: Any) -> None:
        if "leaves" in self.__dict__:  # the last one __init__ sets
            raise AttributeError(f"a Taxonomy is immutable: cannot set {name!r}")
        object.__setattr__(self, name, value)

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[str, str]],
        names: Mapping[str, str] | None = None,
        *,
        root: str | None = None,
        where: Sequence[str] | None = None,
    ) -> Taxonomy:
        """Build the tree from (parent, child) pairs in any order.

        ``where`` says where each edge was read (file and line) and is used in error messages.
        ``root`` is needed only for a tree of a single node.
        """
        listed = list(edges)
        places = [f"edge {i + 1}" for i in range(len(listed))] if where is None else where
        parent_of = single_parents(listed, places)
        top = single_root(listed, places, parent_of, root)
        children: dict[str, list[str]] = {}
        for child, (parent, _) in parent_of.items():
            children.setdefault(parent, []).append(child)
        ids: list[str] = []
        parents: list[int] = []
        stack = [(top, -1)]
        while stack:
            node, parent_number = stack.pop()
            number = len(ids)
            ids.append(node)
            parents.append(parent_number)
            below = children.get(node)
            if below is not None:
                below.sort(reverse=True)
                stack.extend((child, number) for child in below)
        shown = names or {}
        return cls(ids, parents, [shown.get(node) or node for node in ids])

    # looking up

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Taxonomy({self.names[0]!r}: {len(self)} nodes, {len(self.leaves)} leaves)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Taxonomy):
            return NotImplemented
        return self.content_hash == other.content_hash

    def __hash__(self) -> int:
        return int(self.content_hash[:15], 16)

    def __reduce__(self) -> tuple[Any, ...]:
        return Taxonomy, (self.ids, self.parents, self.names)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over ids, parents and names: equal for equal taxonomies, on every machine."""
        content = json.dumps([self.ids, self.parents.tolist(), self.names], ensure_ascii=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def root(self) -> int:
        """The number of the root node, always 0."""
        return 0

    @property
    def internal(self) -> IntArray:
        """Nodes with children, root included, ascending: the branches of the tree."""
        return np.flatnonzero(self.subtree_end > np.arange(1, len(self) + 1)).astype(np.int32)

    @property
    def child_counts(self) -> IntArray:
        """Number of children per node."""
        return np.bincount(self.parents[1:], minlength=len(self)).astype(np.int32)

    @property
    def leaf_counts(self) -> IntArray:
        """Number of leaves under each node (1 for a leaf)."""
        first, end = self.leaf_ranges
        return end - first

    @property
    def leaf_ranges(self) -> tuple[IntArray, IntArray]:
        """Per node, the slice of ``leaves`` that lies under it."""
        nodes = np.arange(len(self))
        first = np.searchsorted(self.leaves, nodes).astype(np.int32)
        end = np.searchsorted(self.leaves, self.subtree_end).astype(np.int32)
        return first, end

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {node_id: number for number, node_id in enumerate(self.ids)}

    def index(self, node_id: str) -> int:
        """Return the number of a node given its id."""
        if node_id not in self._number_of:
            raise TaxonomyError(f"there is no node {node_id!r} in the taxonomy")
        return self._number_of[node_id]

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._number_of

    @cached_property
    def _by_parent(self) -> tuple[IntArray, IntArray]:
        """All nodes but the root grouped by parent, and where each parent's group starts."""
        order = np.argsort(self.parents[1:], kind="stable").astype(np.int32) + 1
        start = np.concatenate(([0], np.cumsum(self.child_counts))).astype(np.int32)
        return order, start

    def children(self, node: int) -> IntArray:
        """Return the children of a node, in order of their ids."""
        order, start = self._by_parent
        return order[start[node] : start[node + 1]]

    def path(self, node: int) -> IntArray:
        """Return the nodes from the root down to ``node``, both included."""
        upwards = [node]
        while self.parents[upwards[-1]] >= 0:
            upwards.append(int(self.parents[upwards[-1]]))
        return np.array(upwards[::-1], dtype=np.int32)

    def is_ancestor(self, upper: Any, lower: Any) -> Any:
        """Whether ``upper`` is ``lower`` or one of its ancestors; numbers or arrays of them."""
        return (upper <= lower) & (lower < self.subtree_end[upper])

    # all pairs, only when asked

    def ancestors_mask(self) -> BoolArray:
        """Return a mask [node, other]: whether ``other`` is ``node`` or one of its ancestors."""
        nodes = np.arange(len(self))
        return np.asarray(self.is_ancestor(nodes[None, :], nodes[:, None]), dtype=np.bool_)

    def lca_depths(self) -> IntArray:
        """Depth of the lowest common ancestor of all pairs of nodes."""
        return lca_depth_matrix(self.parents, self.depth, self.subtree_end)

    def lca_depth(self, a: IntArray, b: IntArray) -> IntArray:
        """Depth of the lowest common ancestor of given pairs, without the table of all pairs."""
        return lca_depth_of_pairs(self.parents, self.depth, a, b)

    def wu_palmer(self, *, root_depth: int) -> NDArray[np.float64]:
        """Wu-Palmer similarity of all pairs (method, section 3).

        ``root_depth=0`` is the convention of the metrics, ``root_depth=1`` that of the similarity
        matrix W of coarsening and knowledge.
        """
        return wu_palmer_table(self.lca_depths(), self.depth, self.depth, root_depth=root_depth)

    def wu_palmer_of(
        self, rows: IntArray, columns: IntArray, *, root_depth: int
    ) -> NDArray[np.float64]:
        """Part of :meth:`wu_palmer`, [rows, columns]; ``columns`` are ascending."""
        lca = lca_depth_table(self.parents, self.depth, self.subtree_end, rows, columns)
        return wu_palmer_table(lca, self.depth[rows], self.depth[columns], root_depth=root_depth)

    # smaller trees

    def keep(self, kept: BoolArray) -> Taxonomy:
        """Drop the nodes outside the mask; their children move up to the nearest kept ancestor."""
        if not kept[0]:
            raise TaxonomyError("the root of a taxonomy cannot be removed")
        nearest = self.nearest(np.asarray(kept))
        above = nearest[self.parents]
        parent_of = above.tolist()
        children: list[list[int]] = [[] for _ in parent_of]
        for node in np.flatnonzero(kept)[:0:-1].tolist():
            children[parent_of[node]].append(node)
        for node in np.unique(nearest[~kept]).tolist():  # took in nodes whose ids may lie between
            children[node].sort(key=self.ids.__getitem__, reverse=True)
        order = depth_first(children)
        number = np.empty(len(self), dtype=np.int32)
        number[order] = np.arange(len(order))
        parents = number[above[order]]
        parents[0] = -1
        names = [self.names[node] for node in order]
        return Taxonomy([self.ids[node] for node in order], parents, names)

    def restrict(self, leaves: Iterable[str]) -> Taxonomy:
        """Keep the given leaves (ids) and their ancestors."""
        kept = np.zeros(len(self), dtype=np.bool_)
        for leaf_id in leaves:
            leaf = self.index(leaf_id)
            if self.subtree_end[leaf] != leaf + 1:
                raise TaxonomyError(f"cannot restrict to {leaf_id!r}: it is not a leaf")
            kept[leaf] = True
        if not kept.any():
            raise TaxonomyError("cannot restrict a taxonomy to no leaves: give at least one")
        for node in range(len(self) - 1, 0, -1):
            if kept[node]:
                kept[self.parents[node]] = True
        return self.keep(kept)

    def contract_single_children(self) -> Taxonomy:
        """Remove every node, except the root, that has exactly one child."""
        kept = self.child_counts != 1
        kept[0] = True
        return self.keep(kept)

    def nearest_in(self, other: Taxonomy) -> IntArray:
        """For each node, the number in ``other`` of its nearest ancestor-or-self that is there.

        This is where a label goes when coarsening removed its node.
        """
        kept = np.array([node in other for node in self.ids], dtype=np.bool_)
        if not kept[0]:
            raise TaxonomyError(f"the root {self.ids[0]!r} is not in the other taxonomy")
        number = np.array(
            [other.index(node) if node in other else -1 for node in self.ids], dtype=np.int32
        )
        return number[self.nearest(kept)]

    def nearest(self, kept: BoolArray) -> IntArray:
        """Return the nearest kept ancestor-or-self of each node: masks [..., nodes] to nodes.

        Where none is kept it is the root.
        """
        nearest = np.where(kept, np.arange(len(self), dtype=np.int32), np.int32(0))
        for depth in range(1, int(self.depth.max()) + 1):
            level = np.flatnonzero(self.depth == depth)
            above = nearest[..., self.parents[level]]
            nearest[..., level] = np.where(kept[..., level], nearest[..., level], above)
        return nearest

    def properties(self) -> dict[str, int | float]:
        """Return the row of the paper's table of hierarchy properties (root depth 0)."""
        internal = len(self) - len(self.leaves)
        return {
            "nodes": len(self),
            "internal": internal,
            "max_depth": int(self.depth.max()),
            "mean_children": round((len(self) - 1) / internal, 2) if internal else 0.0,
        }

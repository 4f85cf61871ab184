"""The class hierarchy (method, section 1): one immutable tree of nodes with ids and names.

Nodes are numbered depth first, children sorted by id, so the numbers depend only on the content and
not on the order of a file or a set. :mod:`~fedgrain.taxonomy.tree_arrays` has everything that needs
only these numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy.edges import single_parents, single_root
from fedgrain.taxonomy.order import depth_first, depth_first_ids
from fedgrain.taxonomy.tree_arrays import BoolArray as BoolArray
from fedgrain.taxonomy.tree_arrays import IntArray as IntArray
from fedgrain.taxonomy.tree_arrays import TreeArrays


class Taxonomy(TreeArrays):
    """An immutable tree of classes. Build one with :meth:`from_edges` or read it from a file.

    >>> tree = Taxonomy.from_edges([("animal", "bird"), ("animal", "cat"), ("bird", "kite")])
    >>> tree.ids
    ('animal', 'bird', 'kite', 'cat')
    >>> [tree.ids[leaf] for leaf in tree.leaves]
    ['kite', 'cat']
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    synonyms: Mapping[str, tuple[str, ...]]  # by id; they only help to read labels

    def __init__(
        self,
        ids: Sequence[str],
        parents: Sequence[int] | IntArray,
        names: Sequence[str],
        synonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Take nodes in depth-first order, children sorted by id; :meth:`from_edges` sorts them.

        Two trees that differ only in their synonyms are equal.
        """
        self.ids = tuple(ids)
        self.names = tuple(names)
        listed = synonyms or {}
        present = {node: tuple(listed[node]) for node in self.ids if listed.get(node)}
        self.synonyms = MappingProxyType(present)
        count = len(self.ids)
        if not count or len(self.names) != count or np.shape(parents) != (count,):
            raise TaxonomyError("a taxonomy needs at least one node, each with a parent and a name")
        super().__init__(parents)

    def __setattr__(self, name: str, value: Any) -> None:
        if "leaves" in self.__dict__:  # __init__ sets it last
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
        synonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> Taxonomy:
        """Build the tree from (parent, child) pairs in any order.

        ``where`` says where each edge was read (file and line) and is used in error messages.
        ``root`` is needed only for a tree of a single node. ``synonyms`` are further names of
        nodes, by id, that labels may use.
        """
        listed = list(edges)
        places = [f"edge {i + 1}" for i in range(len(listed))] if where is None else where
        parent_of = single_parents(listed, places)
        top = single_root(listed, places, parent_of, root)
        ids, parents = depth_first_ids(top, parent_of)
        shown = names or {}
        return cls(ids, parents, [shown.get(node) or node for node in ids], synonyms)

    # looking up

    def __repr__(self) -> str:
        return f"Taxonomy({self.names[0]!r}: {len(self)} nodes, {len(self.leaves)} leaves)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Taxonomy):
            return NotImplemented
        return self.content_hash == other.content_hash

    def __hash__(self) -> int:
        return int(self.content_hash[:15], 16)

    def __reduce__(self) -> tuple[Any, ...]:
        return Taxonomy, (self.ids, self.parents, self.names, dict(self.synonyms))

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over ids, parents and names: equal for equal taxonomies, on every machine."""
        content = json.dumps([self.ids, self.parents.tolist(), self.names], ensure_ascii=True)
        return hashlib.sha256(content.encode()).hexdigest()

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
        for node in np.unique(nearest[~kept]).tolist():  # these gained children, so sort again
            children[node].sort(key=self.ids.__getitem__, reverse=True)
        order = depth_first(children)
        number = np.empty(len(self), dtype=np.int32)
        number[order] = np.arange(len(order))
        parents = number[above[order]]
        parents[0] = -1
        names = [self.names[node] for node in order]
        return Taxonomy([self.ids[node] for node in order], parents, names, self.synonyms)

    def restrict(self, leaves: Iterable[str]) -> Taxonomy:
        """Keep the given leaves (ids) and their ancestors."""
        kept = np.zeros(len(self), dtype=np.bool_)
        for leaf_id in leaves:
            leaf = self.index(leaf_id)
            if not self.is_leaf(leaf):
                raise TaxonomyError(f"cannot restrict to {leaf_id!r}: it is not a leaf")
            kept[leaf] = True
        if not kept.any():
            raise TaxonomyError("cannot restrict a taxonomy to no leaves: give at least one")
        return self.keep(self.on_paths_to_leaves(kept[self.leaves]))

    def contract_single_children(self) -> Taxonomy:
        """Remove every node, except the root, that has exactly one child."""
        kept = self.child_counts != 1
        kept[0] = True
        return self.keep(kept)

    def nearest_in(self, other: Taxonomy) -> IntArray:
        """For each node, the number in ``other`` of its nearest ancestor-or-self that exists there.

        A label whose node was removed by coarsening moves to this node.
        """
        number = self._numbers_or_minus_one(other).astype(np.int32)
        if number[0] < 0:
            raise TaxonomyError(f"the root {self.ids[0]!r} is not in the other taxonomy")
        return number[self.nearest(number >= 0)]

    def numbers_in(self, full: Taxonomy) -> NDArray[np.int64]:
        """For each node, the number of the node with the same id in the tree before coarsening."""
        numbers = self._numbers_or_minus_one(full)
        if np.any(numbers < 0):
            missing = self.ids[int(np.argmin(numbers))]
            raise TaxonomyError(
                f"node {missing!r} is not in the full taxonomy; pass the tree that was coarsened"
            )
        return numbers

    def _numbers_or_minus_one(self, other: Taxonomy) -> NDArray[np.int64]:
        number_of = other._number_of
        return np.array([number_of.get(node, -1) for node in self.ids], dtype=np.int64)

    def properties(self) -> dict[str, int | float]:
        """Return the row of the paper's table of hierarchy properties (root depth 0)."""
        internal = len(self) - len(self.leaves)
        return {
            "nodes": len(self),
            "internal": internal,
            "max_depth": int(self.depth.max()),
            "mean_children": round((len(self) - 1) / internal, 2) if internal else 0.0,
        }

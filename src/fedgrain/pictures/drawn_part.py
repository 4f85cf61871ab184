"""The part of a large tree that a picture can show: whole levels, as many as have room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgrain.pictures.radial_layout import LONGEST_NAME
from fedgrain.taxonomy.tree import Taxonomy
from fedgrain.text import shortened

IntArray = NDArray[np.signedinteger]

_WHOLE_LEAVES = 1_200  # a tree with more leaves is cut
_WHOLE_DEPTH = 40
CUT_LEAVES = 600  # the most leaves of a tree that was cut


@dataclass(frozen=True, eq=False)
class DrawnPart:
    """The tree to draw, and where its nodes are in the whole tree."""

    taxonomy: Taxonomy
    nodes: IntArray  # [drawn nodes]: numbers in the whole tree; the root's for "... more"
    is_cut: NDArray[np.bool_]  # [drawn nodes]: classes lie below that are not drawn
    caption: str | None  # what is missing; None: nothing


def drawn_part(taxonomy: Taxonomy) -> DrawnPart:
    """Return a tree of up to 1,200 leaves and 40 levels whole, a larger one with levels left out.

    The last level drawn says in brackets how many leaves lie below each class. Of a root with too
    many children, those with the most leaves are drawn.
    """
    nodes = np.arange(len(taxonomy))
    deepest = int(taxonomy.depth.max())
    if len(taxonomy.leaves) <= _WHOLE_LEAVES and deepest <= _WHOLE_DEPTH:
        return DrawnPart(taxonomy, nodes, np.zeros(len(taxonomy), dtype=np.bool_), None)
    depth = _deepest_with_room(taxonomy)
    kept = nodes[taxonomy.depth <= depth]
    total = len(taxonomy.leaves)
    caption = f"{depth} of {deepest} levels; in brackets the leaves below, {total:,} in all"
    hidden = 0
    if len(kept) - 1 > CUT_LEAVES and depth == 1:
        children = kept[1:]
        order = np.argsort(-taxonomy.leaf_counts[children], kind="stable")
        hidden = len(children) - (CUT_LEAVES - 1)
        kept = np.concatenate(([0], np.sort(children[order[: CUT_LEAVES - 1]])))
    is_cut = (taxonomy.depth[kept] == depth) & (taxonomy.child_counts[kept] > 0)
    below = taxonomy.leaf_counts[kept]
    names = [
        _with_count(taxonomy.names[node], count) if cut else taxonomy.names[node]
        for node, cut, count in zip(kept.tolist(), is_cut.tolist(), below.tolist(), strict=True)
    ]
    ids = [taxonomy.ids[node] for node in kept.tolist()]
    parents = np.searchsorted(kept, taxonomy.parents[kept])
    parents[0] = -1
    if hidden:
        ids, names = [*ids, "…"], [*names, f"… {hidden:,} more"]
        parents, kept = np.append(parents, 0), np.append(kept, 0)
        is_cut = np.append(is_cut, True)
    return DrawnPart(Taxonomy(ids, parents.astype(np.int32), names), kept, is_cut, caption)


def _deepest_with_room(taxonomy: Taxonomy) -> int:
    """Return how many levels fit, at least one: the classes they end in must have room."""
    at_depth = np.bincount(taxonomy.depth)
    leaves = np.bincount(taxonomy.depth[taxonomy.leaves], minlength=len(at_depth))
    ends = at_depth + np.cumsum(leaves) - leaves  # [depth]: of the tree cut there
    fits = (ends <= CUT_LEAVES) & (np.arange(len(ends)) <= _WHOLE_DEPTH)
    return max(1, int(np.flatnonzero(fits).max(initial=0)))


def _with_count(name: str, count: int) -> str:
    suffix = f" ({count:,})"
    return shortened(name, LONGEST_NAME - len(suffix)) + suffix

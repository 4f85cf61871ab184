"""What is taken for what: pairs of classes, and maps of the groups at a depth that has room."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedgrain.pages.page_parts import Block, View
from fedgrain.pages.page_tables import Sheet, percent, sheet
from fedgrain.pictures.map_plots import confusion_map, unique_names
from fedgrain.sections.answers import Answers
from fedgrain.taxonomy import Taxonomy

Nodes = NDArray[np.int64]

MOST_GROUPS = 40  # names on either side of a map
_MOST_PAIRS = 30
_OFTEN = 3  # images of a pair that is worth naming
_PER_CLASS = 5  # images of a class, on average, that show which are confused


def pairs_sheet(
    title: str, truth: Nodes, found: Nodes, tree: Taxonomy, most: int = _MOST_PAIRS
) -> Sheet:
    """Return the pairs of nodes that are confused most: what it is, what it is taken for.

    A pair counts in one direction; a row also has the count of the other.
    """
    wrong = truth != found
    pairs, counts = np.unique(np.stack([truth[wrong], found[wrong]]), axis=1, return_counts=True)
    often = {(int(a), int(b)): int(n) for (a, b), n in zip(pairs.T, counts, strict=True)}
    of_class = np.bincount(truth, minlength=len(tree))
    order = sorted(often, key=lambda pair: (-often[pair], -often[pair] / of_class[pair[0]], pair))
    rows = [
        (
            tree.names[a],
            tree.names[b],
            often[a, b],
            int(of_class[a]),
            percent(often[a, b] / of_class[a]),
            often.get((b, a), 0),
            tree.names[int(tree.lca(np.array([a]), np.array([b]))[0])],
        )
        for a, b in order[:most]
    ]
    columns = ("is", "taken for", "images", "of", "share", "the other way", "common group")
    note = f"The first {most} of {len(order):,} pairs." if len(order) > most else ""
    return sheet(title, columns, rows, note)


def often_confused(tested: Answers) -> Sheet:
    """Return the pairs confused most, of classes or, if none is confused often, of groups.

    With few images a class every pair of classes occurs once, which says nothing.
    """
    tree, kept = tested.full_taxonomy, tested.in_full
    deepest = len(tree.levels) - 1
    truth, found = tested.truth[kept], tested.found[kept]
    best = pairs_sheet("Pairs of classes confused most", truth, found, tree)
    if len(truth) >= _PER_CLASS * len(tree.leaves):
        return best
    for depth in range(deepest - 1, 0, -1):
        if best.rows and int(best.rows[0][2].text) >= _OFTEN:
            break
        groups, taken = (cut_at(tree, nodes, depth) for nodes in (truth, found))
        title = f"Pairs of groups confused most, down to depth {depth}"
        above = pairs_sheet(title, groups, taken, tree)
        if not above.rows:
            break
        best = above
    return best


def depths_with_room(tree: Taxonomy, most: int = MOST_GROUPS) -> list[int]:
    """Return the depths, the deepest first, at which cutting the tree leaves few enough groups."""
    fitting = [d for d in range(1, len(tree.levels)) if 1 < len(ends_at(tree, d)) <= most]
    distinct = {len(ends_at(tree, d)): d for d in reversed(fitting)}  # the first depth of a size
    return sorted(distinct.values(), reverse=True)


def ends_at(tree: Taxonomy, depth: int) -> Nodes:
    """Return the nodes a tree ends in when it is cut at a depth, in the order of the tree."""
    at_end = (tree.depth == depth) | ((tree.depth < depth) & (tree.child_counts == 0))
    nodes = np.flatnonzero(at_end)
    return nodes[np.argsort(tree.leaf_ranges[0][nodes], kind="stable")]


def cut_at(tree: Taxonomy, nodes: Nodes, depth: int) -> Nodes:
    """Replace nodes below a depth by their ancestor at it."""
    return tree.ancestor_table[nodes, np.minimum(tree.depth[nodes], depth)]


def confusion_block(tested: Answers) -> Block | None:
    """Return a map for each depth at which the names of all groups have room."""
    tree = tested.taxonomy
    views = []
    for depth in depths_with_room(tree):
        groups = ends_at(tree, depth)
        truth, found = (
            cut_at(tree, nodes, depth) for nodes in (tested.truth_in_h, tested.found_in_h)
        )
        known = np.isin(truth, groups)  # a label above the cut says nothing here
        if not known.any():
            continue
        place = np.full(len(tree), -1)
        place[groups] = np.arange(len(groups))
        counts = np.zeros((len(groups), len(groups)), np.int64)
        np.add.at(counts, (place[truth[known]], place[found[known]]), 1)
        what = "classes" if tree.is_leaf(groups).all() else "groups"
        name = f"depth {depth}: {len(groups)} {what}"
        table = pairs_sheet(f"Most confused at depth {depth}", truth[known], found[known], tree)
        views.append(View(name, confusion_map(unique_names(tree, groups.tolist()), counts), table))
    if not views:
        return None
    text = (
        "A row is what the images are, a column what the model takes them for; the diagonal is "
        "right. The colour is the share of the row's images; white is none."
    )
    return Block("confusion", "What is taken for what", text, tuple(views), "depth")

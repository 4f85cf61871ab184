"""What each client knows, as a map and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from fedgrain.pages.page_parts import Block, View
from fedgrain.pages.page_tables import percent, sheet
from fedgrain.pictures.map_plots import knowledge_map
from fedgrain.sections.confusion import depths_with_room, ends_at
from fedgrain.sections.model_inspection import Sites
from fedgrain.taxonomy import Taxonomy

_NAMED_CLASSES = 60  # more names do not fit under a map


def knowledge_block(views: Sequence[View], chosen_by: str = "alpha") -> Block:
    """Return what each client knows."""
    text = (
        "How far down the taxonomy each client labels each class (classes from left to right in "
        "the order of the taxonomy): 100% is the class itself, 0% the root."
    )
    return Block("knowledge", "What each client knows", text, tuple(views), chosen_by)


def knowledge_view(name: str, tree: Taxonomy, sites: Sites) -> View:
    """Return each client's knowledge as a map and as a table."""
    depths = sites.label_depths(tree)
    leaves = tree.leaves
    rows = [
        (
            client,
            f"{int(known[leaves].sum())} of {len(leaves)}",
            percent(float(known[leaves].mean())),
            f"{int(known.sum())} of {len(tree)}",
            float(label_depths.mean()),
        )
        for client, known, label_depths in zip(sites.names, sites.known, depths, strict=True)
    ]
    names = ("client", "classes known", "share", "nodes known", "mean depth of labels")
    figure = knowledge_map(tree, sites.names, depths, named_columns(tree))
    return View(name, figure, sheet(name, names, rows))


def named_columns(tree: Taxonomy) -> list[int]:
    """Return the classes if their names have room, else the groups of a level that has."""
    leaves: list[int] = tree.leaves.tolist()
    if len(leaves) <= _NAMED_CLASSES:
        return leaves
    fitting = depths_with_room(tree, _NAMED_CLASSES)
    groups: list[int] = ends_at(tree, fitting[0]).tolist() if fitting else leaves
    return groups

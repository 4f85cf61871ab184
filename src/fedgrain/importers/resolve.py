"""Which node of the final tree each label means: the source's own tree, or the user's."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedgrain.folders.labels import Labels, folded
from fedgrain.importers.class_tree import TOP
from fedgrain.importers.contract import Reading
from fedgrain.importers.names_file import LEAVE_OUT, Names, UnknownWord
from fedgrain.taxonomy.tree import Taxonomy

_NEAREST = 3


@dataclass
class Resolved:
    """The tree, the node of every label, and the words that mean none."""

    taxonomy: Taxonomy
    ranks: dict[str, str]  # by id, where the source has them
    node_of: dict[int | str, int]  # label: node
    left_out: dict[int | str, str]  # label: why
    unknown: dict[str, UnknownWord] = field(default_factory=dict)


def resolve(reading: Reading, names: Names, tree: Taxonomy | None, root: str) -> Resolved:
    """Find the node of every label: in ``tree`` if it is given, else in the source's own."""
    reading.classes.link()
    counts: dict[int | str, int] = {}
    for image in reading.images:
        counts[image.label] = counts.get(image.label, 0) + 1
    if tree is not None:
        return _in_given(reading, names, tree, counts)
    return _in_own(reading, names, root, counts)


def _in_own(reading: Reading, names: Names, root: str, counts: dict[int | str, int]) -> Resolved:
    """Use the tree of the source; classes that the names file maps elsewhere leave it."""
    classes = reading.classes.classes
    above = reading.above or TOP in counts
    tree, ids = reading.classes.taxonomy(range(len(classes)), root, above=above)
    moved = _moved(reading, names, tree, ids) if names.nodes else {}
    kept = [number for number in range(len(classes)) if number not in moved]
    if moved:
        tree, ids = reading.classes.taxonomy(kept, root, above=above)
    ranks = {ids[number]: classes[number].rank for number in kept if classes[number].rank}
    found = Resolved(tree, ranks, {}, {})
    labels: Labels | None = None  # takes a while to make, and is seldom needed
    for label, count in counts.items():
        if isinstance(label, int) and label not in moved:
            found.node_of[label] = tree.index(ids[label])
            continue
        labels = labels or Labels(tree)
        word = moved[label] if isinstance(label, int) else label
        _settle(found, labels, names, label, [word], count)
    return found


def _moved(reading: Reading, names: Names, tree: Taxonomy, ids: dict[int, str]) -> dict[int, str]:
    """Return the childless classes that the names file maps to another node, or leaves out."""
    classes = reading.classes.classes
    inner = {read.parent for read in classes}  # used only for membership tests
    labels = Labels(tree)
    moved: dict[int, str] = {}
    for number, read in enumerate(classes):
        if number not in inner and folded(read.name) in names.nodes:
            meant = names.meaning(read.name, labels, tree)
            if meant == LEAVE_OUT or (isinstance(meant, int) and tree.ids[meant] != ids[number]):
                moved[number] = read.name
    return moved


def _in_given(
    reading: Reading, names: Names, tree: Taxonomy, counts: dict[int | str, int]
) -> Resolved:
    """Use the user's tree; the source's own only tells nodes of the same name apart."""
    found = Resolved(tree, {}, {}, {})
    labels = Labels(tree)
    for label, count in counts.items():
        own = isinstance(label, int) and label != TOP
        lineage = reading.classes.lineage(label) if isinstance(label, int) else [label]
        further = list(reading.classes.classes[int(label)].synonyms) if own else []
        if lineage:
            _settle(found, labels, names, label, lineage, count, further)
        else:
            found.node_of[label] = tree.root
    return found


def _settle(
    found: Resolved,
    labels: Labels,
    names: Names,
    label: int | str,
    lineage: list[str],
    count: int,
    further: list[str] | None = None,
) -> None:
    """Find the node of one label by the user's names, its own name, then its other names."""
    word, tree = lineage[-1], found.taxonomy
    path = " > ".join(lineage)
    for said in (path, word):
        meant = names.meaning(said, labels, tree)
        if meant == LEAVE_OUT:
            found.left_out[label] = f"the names file leaves {said!r} out"
            return
        if isinstance(meant, int):
            found.node_of[label] = meant
            return
    several: tuple[int, ...] = ()
    for spelled in (word, *(further or [])):
        nodes = _by_lineage(labels, tree, labels.find(spelled).nodes, lineage[:-1])
        if len(nodes) == 1:
            found.node_of[label] = nodes[0]
            return
        several = several or nodes
    near = [tree.ids[node] for node in several] or _proposed(labels, tree, lineage)
    key = path if word in found.unknown else word
    if folded(key) in names.nodes:
        key = names.nodes[folded(key)][0]
    found.unknown.setdefault(key, UnknownWord(nearest=tuple(near))).images += count
    found.left_out[label] = "its word has no node yet"


def _by_lineage(
    labels: Labels, tree: Taxonomy, nodes: tuple[int, ...], above: list[str]
) -> tuple[int, ...]:
    """Return, of nodes with one name, those below most of the names that stand above the label."""
    if len(nodes) < 2 or not above:
        return nodes
    uppers = [labels.find(name).nodes for name in above]
    shared = [
        sum(any(tree.is_ancestor(upper, node) for upper in alike) for alike in uppers)
        for node in nodes
    ]
    most = max(shared)
    return tuple(node for node, share in zip(nodes, shared, strict=True) if share == most)


def _proposed(labels: Labels, tree: Taxonomy, lineage: list[str]) -> list[str]:
    """Return ids to propose: names that look alike, then the nearest class above that is there."""
    near = labels.nearest(lineage[-1], _NEAREST, 0.6)
    for name in reversed(lineage[:-1]):
        nodes = labels.find(name).nodes
        if len(nodes) == 1:
            near.append(tree.ids[nodes[0]])
            break
    return list(dict.fromkeys(near))

"""The labellers as the model sees them: what each seems to know, where it stops early, doubts.

It is made from labels and images, so it exists only where they are; nothing of it is ever sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgrain.arithmetic import one_thread
from fedgrain.heads import DecoupledModel
from fedgrain.images.images import LabelledImages
from fedgrain.knowledge import project_known
from fedgrain.models.label_check import Doubt, LabellerFinding, Wrote, check_labels
from fedgrain.models.trained_model import TrainedModel
from fedgrain.pages.page_parts import Block, Pictured, Section, View
from fedgrain.pages.page_tables import Sheet, percent, sheet
from fedgrain.pictures.interactive_plots import knowledge_sunburst
from fedgrain.pictures.map_plots import knowledge_map
from fedgrain.sections.answers import spaced
from fedgrain.sections.knowledge_block import named_columns
from fedgrain.sections.model_inspection import picture
from fedgrain.taxonomy import Taxonomy

_MOST_IMAGES = 10_000  # of all sites together, evenly spaced
_MOST_BY_BRANCH = 1_000  # with a net for each branch
_MOST_NODES = 4_000  # of all drawn trees together
_MOST_TREES = 8
_MOST_DOUBTS = 200
_MOST_PICTURES = 12
_MOST_DEPTHS = 12


def found_labellers(
    model: TrainedModel, data: LabelledImages, sites: Sequence[Wrote]
) -> list[LabellerFinding]:
    """Ask the model about the labellers of every site; of many labels about a part."""
    most = _MOST_BY_BRANCH if isinstance(model.net, DecoupledModel) else _MOST_IMAGES
    total = sum(len(site.labels) for site in sites)
    images, found = model.inputs(data), []
    with one_thread():
        for site in (site for site in sites if len(site.labels)):
            rows = np.arange(len(site.labels))
            if total > most:
                rows = spaced(rows, max(1, most * len(rows) // total))
            found += check_labels(model, images, site.some(rows))
    return found


def labellers_section(
    found: Sequence[LabellerFinding], tree: Taxonomy, data: LabelledImages, *, images: bool
) -> Section:
    """Return what is found about the labellers as tables, with the images doubted most."""
    doubts = sorted(
        ((who.name, doubt) for who in found for doubt in who.doubts),
        key=lambda pair: pair[1].probability,
    )
    sheets, shown = [_labeller_sheet(found, tree)], []
    if images and doubts:
        sheets.append(_doubt_sheet(doubts, tree))
        shown = [_pictured(name, d, tree, data) for name, d in doubts[:_MOST_PICTURES]]
    text = (
        "What the labels of each labeller and the final model together say about who wrote them. "
        "A labeller stops early if it writes a group although it seems to know the class. This "
        "part is made where the labels are; in a federation it is never sent."
    )
    return Section("labellers", "The labellers", text, tuple(sheets), tuple(shown))


def labellers_block(found: Sequence[LabellerFinding], tree: Taxonomy) -> Block:
    """Return what the labellers seem to know: a map of all of them, and some on the tree."""
    known = np.stack([who.knows > 0.5 for who in found])
    known[:, 0] = True
    known = tree.close_upwards(known)
    depths = tree.depth[project_known(tree, known).labels].astype(np.int64)
    names = [who.name for who in found]
    overview = [
        (name, int(own[tree.leaves].sum()), float(own_depths.mean()))
        for name, own, own_depths in zip(names, known, depths, strict=True)
    ]
    columns = ("labeller", "classes it seems to know", "mean depth it can label at")
    figure = knowledge_map(tree, names, depths, named_columns(tree))
    views = [View("all labellers", figure, sheet("all labellers", columns, overview))]
    for who in found[: max(1, min(_MOST_TREES, _MOST_NODES // len(tree)))]:
        views.append(View(who.name, knowledge_sunburst(tree, who.knows), _known_sheet(who, tree)))
    text = (
        "How far down each labeller seems able to label: judged by what it wrote, and by what the "
        "model sees in the images it left open. On the tree: how likely it knows a node."
    )
    if len(found) > len(views) - 1:
        text += f" Of {len(found)} labellers the first {len(views) - 1} are drawn on the tree."
    heading = "What each labeller seems to know"
    return Block("labeller-trees", heading, text, tuple(views), "labeller")


def _labeller_sheet(found: Sequence[LabellerFinding], tree: Taxonomy) -> Sheet:
    """Return a row per labeller: labels, what it knows, how often it stops early by depth."""
    depths = sorted({depth for who in found for depth in who.early})[:_MOST_DEPTHS]
    rows = [
        (
            who.name,
            who.labels,
            percent(who.in_full / max(who.labels, 1)),
            f"{len(who.known)} of {len(tree.leaves)}",
            len(who.doubts),
            *(percent(who.early.get(depth)) for depth in depths),
        )
        for who in found
    ]
    stops = ["stops early at the root" if not d else f"at depth {d}" for d in depths]
    columns = (
        "labeller",
        "labels",
        "in full",
        "classes it seems to know",
        "look wrong",
    )
    note = "A label looks wrong if the model gives it less than 5%."
    return sheet("What the labels say about who wrote them", (*columns, *stops), rows, note)


def _doubt_sheet(doubts: Sequence[tuple[str, Doubt]], tree: Taxonomy) -> Sheet:
    rows = [
        (name, d.image, tree.names[d.label], percent(d.probability), tree.names[d.seems])
        for name, d in doubts[:_MOST_DOUBTS]
    ]
    left = len(doubts) - len(rows)
    note = "Images have their number in the data set; fedgrain data show --model lists files."
    if left:
        note += f" {left:,} more are left out."
    columns = ("labeller", "image", "label", "likely", "seems to be")
    return sheet("Labels that look wrong, the least likely first", columns, rows, note, True)


def _known_sheet(who: LabellerFinding, tree: Taxonomy) -> Sheet:
    rows = [
        (" / ".join(tree.names[n] for n in tree.path(node).tolist()), percent(who.knows[node]))
        for node in np.flatnonzero(who.knows > 0.5).tolist()
        if node
    ]
    return sheet(who.name, ("node", "knows it"), rows, searchable=True)


def _pictured(name: str, doubt: Doubt, tree: Taxonomy, data: LabelledImages) -> Pictured:
    label, seems = tree.names[doubt.label], tree.names[doubt.seems]
    lines = (("label", f"{label} ({100 * doubt.probability:.1f}% likely)"), ("seems", seems))
    about = (("labeller", name), *lines)
    return Pictured(picture(data.images[doubt.image]), f"An image labelled {label}", about)

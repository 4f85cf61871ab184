"""A close look at one run: what the report shows if its model and its images are at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedgrain.data.images import LabelledImages
from fedgrain.errors import FedgrainError, ReportError
from fedgrain.models.model_folder import load
from fedgrain.plugins import Trust, check_trust
from fedgrain.preparation.config import Config
from fedgrain.preparation.prepare import load_images
from fedgrain.report.answers import Watch, no_watch
from fedgrain.report.branches import FEWEST_SAMPLES, worst
from fedgrain.report.calibration_block import calibration_block
from fedgrain.report.classes_section import classes_section
from fedgrain.report.confusion import confusion_block, depths_with_room, ends_at
from fedgrain.report.headline import plain_headline
from fedgrain.report.interactive_plots import sunburst
from fedgrain.report.map_plots import knowledge_map
from fedgrain.report.model_inspection import Inspection, Sites, inspect, site_labels, sites_of
from fedgrain.report.page_parts import Block, Close, Section, TreeNode, View
from fedgrain.report.page_tables import Sheet, percent, sheet
from fedgrain.report.redo import with_places_found
from fedgrain.report.sites_section import SiteLabels, rounds_sheet, sites_section
from fedgrain.runs.run_folder import RunFolder
from fedgrain.taxonomy import Taxonomy

_NAMED_CLASSES = 60  # more names do not fit under a map


@dataclass
class Look:
    """The inspection of a run, as far as its model and its images are available."""

    close: Close | None = None
    knowledge: list[View] = field(default_factory=list)
    inspection: Inspection | None = None
    headline: str = ""
    sections: list[Section] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def look_closely(
    place: RunFolder,
    name: str,
    others: Mapping[str, Config],
    *,
    images: bool,
    trust_code: Trust = False,
    watch: Watch = no_watch,
) -> Look:
    """Inspect one run, and what clients know in it or, at several alphas, in ``others`` by name."""
    look = Look()
    try:
        model = load(place.path, trust_code=trust_code)
        config = with_places_found(place.read_config().complete(), place)
        for used in (config, *others.values()):
            check_trust(used.settings(), place.config, trust_code, ReportError)
        here = config.data_root or config.manifest
        if config.dataset == "folder" and here is None:  # trained across real sites
            raise ReportError("its images stayed at their sites")
        data = load_images(config, model.trunk)
        sites = site_labels(config, data, model.trunk)
        look.inspection = inspect(model, config, data, images=images, watch=watch)
        for view_name, other in others.items():
            known = sites_of(with_places_found(other, place), data, model.taxonomy)
            look.knowledge.append(knowledge_view(view_name, model.taxonomy, known))
        rounds = rounds_sheet(place.metrics_lines())
    except (FedgrainError, OSError) as error:
        look.notes.append(f"No closer look at the model of {name}: {error}.")
        return look
    show(look, look.inspection, name, sites, data, rounds)
    return look


def show(
    look: Look,
    found: Inspection,
    name: str,
    sites: Sequence[SiteLabels],
    data: LabelledImages,
    rounds: Sheet | None = None,
) -> None:
    """Put what was found into the parts of a page."""
    tested = found.tested
    look.headline = plain_headline(tested)
    look.sections = [sites_section(sites, tested, data, rounds), classes_section(tested)]
    blocks = (confusion_block(tested), calibration_block(tested))
    look.blocks = [block for block in blocks if block is not None]
    look.close = _close_view(name, found, sites)


def _close_view(name: str, found: Inspection, sites: Sequence[SiteLabels]) -> Close:
    """Return the sunburst, the same as a text tree, and the branches."""
    tree, scores = found.taxonomy, found.scores
    knowing = np.stack([site.knows for site in sites]).sum(axis=0)
    figure = sunburst(tree, scores.recall, scores.truths, knowing, len(sites))
    about = figure["data"][0]["text"]
    shown = [
        {"name": tree.names[branch.node], "branch": branch, "examples": examples}
        for branch in worst(found.branches)
        if (examples := found.examples.get(branch.node))
    ]
    return Close(
        name,
        f"{len(found.tested)} {found.tested.split} images",
        figure,
        _tree(tree, about, 0),
        _branch_sheet(found),
        tuple(shown),
    )


def _tree(tree: Taxonomy, about: Sequence[str], node: int) -> TreeNode:
    children = tuple(_tree(tree, about, child) for child in tree.children(node).tolist())
    return TreeNode(tree.names[node], about[node], children)


def _branch_sheet(found: Inspection) -> Sheet:
    """Return the branches with enough images, the worst first."""
    tree = found.taxonomy
    shown = [branch for branch in found.branches if branch.arrived >= FEWEST_SAMPLES]
    left_out = len(found.branches) - len(shown)
    rows = [
        (
            " / ".join(tree.names[n] for n in tree.path(branch.node)),
            int(tree.child_counts[branch.node]),
            branch.arrived,
            branch.arrived - branch.right,
            percent(branch.accuracy),
        )
        for branch in shown
    ]
    names = ("branch", "children", "samples led to it", "led on wrongly", "right")
    note = (
        "The order is by the share of mistakes that is certain (the lower end of its 95% "
        "interval), so that a few unlucky images do not lead the list."
    )
    if left_out:
        note += f" {left_out:,} branches with fewer than {FEWEST_SAMPLES} images are left out."
    return sheet("Branches, the worst first", names, rows, note, searchable=True)


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
    figure = knowledge_map(tree, sites.names, depths, _columns(tree))
    return View(name, figure, sheet(name, names, rows))


def _columns(tree: Taxonomy) -> list[int]:
    """Return the classes if their names have room, else the groups of a level that has."""
    leaves: list[int] = tree.leaves.tolist()
    if len(leaves) <= _NAMED_CLASSES:
        return leaves
    fitting = depths_with_room(tree, _NAMED_CLASSES)
    groups: list[int] = ends_at(tree, fitting[0]).tolist() if fitting else leaves
    return groups

"""What a close look at a run shows: sections, blocks, the taxonomy as a sunburst, branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedgrain.images.images import LabelledImages
from fedgrain.pages.page_parts import Block, Close, Section, TreeNode, View
from fedgrain.pages.page_tables import Sheet, percent, sheet
from fedgrain.pictures.interactive_plots import sunburst
from fedgrain.sections.branches import FEWEST_SAMPLES, worst
from fedgrain.sections.calibration_block import calibration_block
from fedgrain.sections.classes_section import classes_section
from fedgrain.sections.confusion import confusion_block
from fedgrain.sections.coverage_section import coverage_section
from fedgrain.sections.headline import plain_headline
from fedgrain.sections.model_inspection import Inspection
from fedgrain.sections.sites_section import SiteLabels, sites_section
from fedgrain.taxonomy import Taxonomy


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
    coverage = coverage_section(tested, data)
    look.sections += [] if coverage is None else [coverage]
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

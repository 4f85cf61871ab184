"""Whether the probabilities can be believed, at each depth of the taxonomy."""

from __future__ import annotations

import numpy as np

from fedgrain.pages.page_parts import Block, View
from fedgrain.pages.page_tables import percent, sheet
from fedgrain.pictures.map_plots import reliability_plot
from fedgrain.scoring.calibration import Reliability, reliability
from fedgrain.sections.answers import Answers

_FEWEST = 20  # images of a depth whose calibration says something
_SMALL = 0.03  # a difference not worth mentioning
_MOST_DEPTHS = 8


def calibration_block(tested: Answers) -> Block | None:
    """Return reliability curves per depth; None with too few images."""
    by_depth = reliability_by_depth(tested)
    if not by_depth:
        return None
    rows = [
        (
            depth,
            f"{low:.0%} to {low + 0.1:.0%}",
            int(count),
            percent(float(said)),
            percent(float(right)),
        )
        for depth, found in by_depth.items()
        for low, count, said, right in zip(
            found.low, found.count, found.said, found.right, strict=True
        )
    ]
    columns = ("depth", "probability", "images", "said on average", "right")
    table = sheet("Said and right, per depth", columns, rows)
    curves = {f"depth {depth}": found for depth, found in by_depth.items()}
    view = View("", reliability_plot(curves), table)
    text = (
        "Of the answers given with a probability of 80%, 80% should be right: a point below the "
        "diagonal is too sure, one above it too careful. " + _spoken(by_depth)
    )
    return Block("calibration", "Can its probabilities be believed?", text, (view,))


def reliability_by_depth(tested: Answers) -> dict[int, Reliability]:
    """Return the reliability of the answers at each depth, but for those a coarse label hides."""
    table = tested.taxonomy.ancestor_table
    truth, found = table[tested.truth_in_h], table[tested.found_in_h]  # [images, depths]
    at_leaf = np.asarray(tested.taxonomy.is_leaf(tested.truth_in_h))
    by_depth: dict[int, Reliability] = {}
    for depth in range(1, table.shape[1]):
        said = tested.probability[:, depth]
        comparable = ((truth[:, depth] >= 0) | at_leaf) & ~np.isnan(said)
        if comparable.sum() >= _FEWEST and len(by_depth) < _MOST_DEPTHS:
            right = truth[comparable, depth] == found[comparable, depth]
            by_depth[depth] = reliability(said[comparable], right)
    return by_depth


def _spoken(by_depth: dict[int, Reliability]) -> str:
    """Say for each depth how far off the probabilities are."""
    spoken = []
    for depth, found in by_depth.items():
        said, right = (
            float((values * found.count).sum() / found.samples)
            for values in (found.said, found.right)
        )
        verdict = "as it should be"
        if abs(found.too_sure) > _SMALL:
            verdict = "too sure" if found.too_sure > 0 else "too careful"
        spoken.append(
            f"At depth {depth} it says {said:.0%} on average and is right in {right:.0%} of "
            f"{found.samples:,} images: {verdict} (expected calibration error {found.error:.3f})."
        )
    return " ".join(spoken)

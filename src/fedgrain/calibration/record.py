"""What a model keeps of its calibration: a temperature, and counts of scores (section 12)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedgrain.calibration.guarantee import node_cells
from fedgrain.calibration.node_sets import set_cells
from fedgrain.calibration.score_counts import ScoreCounts
from fedgrain.calibration.temperature_sums import Sums, best_temperature, temperature_sums
from fedgrain.heads import Head
from fedgrain.taxonomy.tree import Taxonomy

Labelled = tuple[Tensor, NDArray[np.int64]]  # logits, and nodes of H


@dataclass(frozen=True, eq=False)
class Calibration:
    """The temperature of a model, and what its guarantees are calculated from."""

    temperature: float
    nodes: ScoreCounts  # of the answers that are one node
    sets: ScoreCounts  # of the answers that are sets of nodes
    source: str  # which images were counted: "validation images", or a file

    @property
    def images(self) -> int:
        """How many images were counted."""
        return self.nodes.images

    def coarse(self, tree: Taxonomy) -> int:
        """Return how many of the images have a label that is not a leaf."""
        return int(self.nodes.counts[~tree.is_leaf(self.nodes.labels)].sum())

    def entries(self, tree: Taxonomy) -> dict[str, Any]:
        """Return it as ``model.json`` holds it."""
        return {
            "source": self.source,
            "temperature": self.temperature,
            "nodes": self.nodes.entries(tree),
            "sets": self.sets.entries(tree),
        }

    @classmethod
    def read(cls, entries: Mapping[str, Any], tree: Taxonomy) -> Calibration:
        """Read what :meth:`entries` returned; anything else raises a ``ValueError``."""
        temperature = float(entries["temperature"])
        if not 0 < temperature < math.inf:
            raise ValueError(f"a temperature is greater than 0, not {temperature}")
        nodes, sets = (ScoreCounts.read(entries[name], tree) for name in ("nodes", "sets"))
        return cls(temperature, nodes, sets, str(entries["source"]))


@dataclass(frozen=True, eq=False)
class SiteCounts:
    """What one site counts of its images at a given temperature."""

    nodes: ScoreCounts
    sets: ScoreCounts

    @classmethod
    def of(cls, head: Head, part: Labelled, temperature: float) -> SiteCounts:
        """Count the scores of images."""
        logits, labels = part
        table = tempered(head, logits, temperature)
        tree = head.taxonomy
        return cls(
            ScoreCounts.of(labels, node_cells(table, labels, tree)),
            ScoreCounts.of(labels, set_cells(table, labels, tree)),
        )


def tempered(head: Head, logits: Tensor, temperature: float) -> Tensor:
    """Return log P of all nodes; at a temperature of 1 it is the head's own, to the bit."""
    if temperature == 1.0:
        return head.node_log_probs(logits)
    return head.tempered_log_probs(logits, temperature)


def calibration_of(temperature: float, counts: Sequence[SiteCounts], source: str) -> Calibration:
    """Add up what sites counted at the temperature they were told."""
    nodes = ScoreCounts.added([one.nodes for one in counts])
    return Calibration(temperature, nodes, ScoreCounts.added([c.sets for c in counts]), source)


def calibrate(head: Head, parts: Sequence[Labelled], source: str) -> Calibration | None:
    """Fit and count on the images of several sites; None without any."""
    parts = [part for part in parts if len(part[1])]
    if not parts:
        return None
    sums: list[Sums] = [temperature_sums(head, *part) for part in parts]
    temperature = best_temperature(sums)
    counts = [SiteCounts.of(head, part, temperature) for part in parts]
    return calibration_of(temperature, counts, source)

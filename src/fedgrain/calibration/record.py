"""What a model keeps of its calibration: a temperature, and counts of scores (section 12)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedgrain.calibration.guarantee import Table, node_cells
from fedgrain.calibration.node_sets import set_cells
from fedgrain.calibration.score_counts import ScoreCounts
from fedgrain.calibration.strangeness import strange_cells, strangeness
from fedgrain.calibration.temperature_sums import (
    Sums,
    Temperature,
    best_by_depth,
    best_temperature,
    sums_by_depth,
    temperature_sums,
)
from fedgrain.heads import Head
from fedgrain.scoring.metrics import Values
from fedgrain.taxonomy.tree import Taxonomy

COUNTED = ("nodes", "sets", "strangeness")
Labelled = tuple[Tensor, NDArray[np.int64]]  # logits, and nodes of H


@dataclass(frozen=True, eq=False)
class Calibration:
    """The temperature of a model, and what its guarantees are calculated from."""

    temperature: Temperature
    nodes: ScoreCounts  # of the answers that are one node
    sets: ScoreCounts  # of the answers that are sets of nodes
    strangeness: ScoreCounts  # of how strange the images look; all count for the root
    source: str  # which images were counted: "validation images", or a file

    @property
    def images(self) -> int:
        """How many images were counted."""
        return self.nodes.images

    def coarse(self, tree: Taxonomy) -> int:
        """Return how many of the images have a label that is not a leaf."""
        return int(self.nodes.counts[~tree.is_leaf(self.nodes.labels)].sum())

    def how_strange(
        self, log_probs: Table, tree: Taxonomy, known_share: float
    ) -> tuple[Values, NDArray[np.bool_]]:
        """Return how strange images look, from 0 to 1, and mask those that look like no class.

        Of images that do belong to a class, at least ``known_share`` are not marked.
        """
        found = strangeness(log_probs, tree)
        return found, np.asarray(found > self.strangeness.threshold(known_share, tree))

    def facts(self, tree: Taxonomy) -> dict[str, Any]:
        """Return what a reader may want to know of it."""
        return {
            "source": self.source,
            "images": self.images,
            "coarse": self.coarse(tree),
            "temperature": self.temperature,
            "highest_guarantee": self.images / (self.images + 1),
        }

    def entries(self, tree: Taxonomy) -> dict[str, Any]:
        """Return it as ``model.json`` holds it."""
        return {
            "source": self.source,
            "temperature": self.temperature,
            "nodes": self.nodes.entries(tree),
            "sets": self.sets.entries(tree),
            "strangeness": self.strangeness.entries(tree),
        }

    @classmethod
    def read(cls, entries: Mapping[str, Any], tree: Taxonomy) -> Calibration:
        """Read what :meth:`entries` returned; anything else raises a ``ValueError``."""
        temperature = _temperature(entries["temperature"], tree)
        nodes, sets, strange = (ScoreCounts.read(entries.get(name, {}), tree) for name in COUNTED)
        return cls(temperature, nodes, sets, strange, str(entries["source"]))


@dataclass(frozen=True, eq=False)
class SiteCounts:
    """What one site counts of its images at a given temperature."""

    nodes: ScoreCounts
    sets: ScoreCounts
    strangeness: ScoreCounts

    @classmethod
    def of(cls, head: Head, part: Labelled, temperature: Temperature) -> SiteCounts:
        """Count the scores of images."""
        logits, labels = part
        table = tempered(head, logits, temperature)
        tree = head.taxonomy
        return cls(
            ScoreCounts.of(labels, node_cells(table, labels, tree)),
            ScoreCounts.of(labels, set_cells(table, labels, tree)),
            ScoreCounts.of(np.zeros_like(labels), strange_cells(table, tree)),
        )


def _temperature(entry: Any, tree: Taxonomy) -> Temperature:
    found = [float(value) for value in entry] if isinstance(entry, list) else [float(entry)]
    for value in found:
        if not 0 < value < math.inf:
            raise ValueError(f"a temperature is greater than 0, not {value}")
    if not isinstance(entry, list):
        return found[0]
    if len(found) != len(tree.levels) - 1:
        raise ValueError(f"it has {len(found)} temperatures for {len(tree.levels) - 1} depths")
    return tuple(found)


def tempered(head: Head, logits: Tensor, temperature: Temperature) -> Tensor:
    """Return log P of all nodes; at a temperature of 1 it is the head's own, to the bit."""
    if isinstance(temperature, tuple):
        return head.log_probs_by_depth(logits, temperature)
    if temperature == 1.0:
        return head.node_log_probs(logits)
    return head.tempered_log_probs(logits, temperature)


def calibration_of(
    temperature: Temperature, counts: Sequence[SiteCounts], source: str
) -> Calibration:
    """Add up what sites counted at the temperature they were told."""
    nodes, sets, strange = (
        ScoreCounts.added([getattr(one, name) for one in counts]) for name in COUNTED
    )
    return Calibration(temperature, nodes, sets, strange, source)


def calibrate(
    head: Head, parts: Sequence[Labelled], source: str, *, per_depth: bool = False
) -> Calibration | None:
    """Fit and count on the images of several sites; None without any.

    ``per_depth`` fits a temperature per depth where that measures better.
    """
    parts = [part for part in parts if len(part[1])]
    if not parts:
        return None
    sums: list[Sums] = [temperature_sums(head, *part) for part in parts]
    temperature: Temperature = best_temperature(sums)
    if per_depth:
        by_depth = [sums_by_depth(head, *part) for part in parts]
        temperature = best_by_depth(by_depth, sums) or temperature
    counts = [SiteCounts.of(head, part, temperature) for part in parts]
    return calibration_of(temperature, counts, source)

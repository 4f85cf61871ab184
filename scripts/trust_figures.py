"""Print what docs/results/trust.md shows: calibration errors, coverage, and images of no class.

    python scripts/trust_figures.py errors RUN...     calibration error per depth, before and after
    python scripts/trust_figures.py coverage RUN...   coverage over 200 random splits of test images
    python scripts/trust_figures.py restricted RUN... the same, a third of the leaves is possible
    python scripts/trust_figures.py strange RUN...    unseen classes (zero_shot) and other data

A temperature is fitted on the validation images of the run; everything is measured on its test
images.
"""

from __future__ import annotations

import fedgrain  # noqa: F401  # isort: skip - before torch: it chooses the arithmetic

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedgrain.arithmetic import one_thread
from fedgrain.calibration.guarantee import guaranteed_nodes, node_cells, node_scores
from fedgrain.calibration.node_sets import leaves_taken, set_cells, set_scores, walked_mass
from fedgrain.calibration.record import tempered
from fedgrain.calibration.restriction import restricted
from fedgrain.calibration.score_counts import ScoreCounts
from fedgrain.calibration.strangeness import strangeness
from fedgrain.calibration.temperature_sums import best_temperature, sums_by_depth
from fedgrain.config.config import Config
from fedgrain.data import LabelledImages, load_dataset
from fedgrain.heads import DecoupledModel
from fedgrain.models.model_folder import load
from fedgrain.models.trained_model import TrainedModel
from fedgrain.preparation.prepare import load_images, server_validation
from fedgrain.preparation.zero_shot import hide_unseen, seen_leaves
from fedgrain.randomness import numpy_generator
from fedgrain.runs.calibrate import calibration_on, spaced
from fedgrain.runs.evaluate import scores_of, truths
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.calibration import reliability, reliability_by_depth
from fedgrain.scoring.rules import predict
from fedgrain.taxonomy import Taxonomy
from fedgrain.trunks import ThroughTrunk

SPLITS, SITES, GUARANTEES = 200, 10, (0.8, 0.9, 0.95)
SCORES = ("largest P", "energy", "leaf entropy", "strangeness")  # of something else
MOST_OTHER = 600  # images of the other data set
Array = np.ndarray[Any, Any]


class Measured:
    """A finished run: its model calibrated on validation images, and its test images."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.model: TrainedModel = load(folder)
        self.config: Config = RunFolder(folder).read_config().complete()
        self.data: LabelledImages = load_images(self.config, self.model.trunk)
        self.inputs = self.model.inputs(self.data)
        shown = hide_unseen(self.data, self.config.seed) if self.config.zero_shot else self.data
        validation = server_validation(self.config, shown)
        own = (validation, self.labels(validation))
        calibration = calibration_on(self.model, self.inputs, [own], "validation")
        assert calibration is not None
        self.calibration, self.validation = calibration, own
        self.test = self.data.split_indices("test")
        if isinstance(self.model.net, DecoupledModel):
            self.test = self.test[::5]  # every branch for every image

    @property
    def tree(self) -> Taxonomy:
        """H."""
        return self.model.taxonomy

    def labels(self, chosen: Array) -> Array:
        """Return the truths of images as nodes of H."""
        full = self.model.full_taxonomy
        found = full.nearest_in(self.tree)[truths(self.model, self.data, chosen)]
        return np.asarray(found, np.int64)

    @cache  # noqa: B019 - a run is measured and dropped
    def tables(self) -> tuple[Array, Array]:
        """Return log P of the test images before and after calibration."""
        bare = replace(self.model, calibration=None)
        logits = bare.logits(self.inputs, self.test)
        return tuple(
            tempered(self.model.head, logits, t).numpy()
            for t in (1.0, self.calibration.temperature)
        )

    def by_depth(self) -> tuple[tuple[float, ...], Array]:
        """Return temperatures per depth, better or not, and log P of the test images with them."""
        bare, head = replace(self.model, calibration=None), self.model.head
        chosen = spaced(len(self.validation[0]), by_branch=isinstance(bare.net, DecoupledModel))
        numbers, labels = (part[chosen] for part in self.validation)
        sums = sums_by_depth(head, bare.logits(self.inputs, numbers), labels)
        found = tuple(best_temperature([row]) for row in sums)
        return found, tempered(head, bare.logits(self.inputs, self.test), found).numpy()


def errors(folders: list[Path]) -> None:
    """Print the calibration error per depth of each run: before, with one temperature, with many.

    Marked is what ``fedgrain calibrate --per-depth`` chooses by the validation images.
    """
    print("| run | head | temperature | mean -log P | HF | leaf accuracy | error at depth 1... |")
    print("|---|---|---|---|---|---|---|")
    for folder in folders:
        run = Measured(folder)
        before, after = run.tables()
        many, by_depth = run.by_depth()
        again = calibration_on(
            run.model, run.inputs, [run.validation], "validation", per_depth=True
        )
        assert again is not None
        chosen = isinstance(again.temperature, tuple)
        head = f"{run.model.head_name}{', branches' if 'fedbdft' in run.config.algorithm else ''}"
        spoken = (
            "none",
            f"{run.calibration.temperature:.2f}{'' if chosen else ' *'}",
            f"{' '.join(f'{t:.2f}' for t in many)}{' *' if chosen else ''}",
        )
        for temperature, table in zip(spoken, (before, after, by_depth), strict=True):
            row = (run.name, head, temperature, *_measured(run, table))
            print(f"| {' | '.join(row)} |", flush=True)


def _measured(run: Measured, table: Array) -> tuple[str, ...]:
    """Return mean -log P, HF, leaf accuracy and the calibration errors of the test images."""
    truth, nodes = run.labels(run.test), predict(table, run.tree)
    loss = -table[np.arange(len(truth)), truth].mean()
    scores = scores_of(run.model, nodes, truths(run.model, run.data, run.test))
    found = reliability_by_depth(table, truth, run.tree, fewest=100)
    error = " ".join(f"{one.error:.3f}" for one in found.values())
    return f"{loss:.3f}", f"{scores.hf:.4f}", f"{scores.accuracy:.4f}", error


def coverage(folders: list[Path]) -> None:
    """Print coverage over random halves of the test images."""
    print("| run | answer | coarse truths | guarantee | covered | lowest site | one leaf |")
    print("|---|---|---|---|---|---|---|")
    for folder in folders:
        run = Measured(folder)
        table, truth = run.tables()[1], run.labels(run.test)
        random = numpy_generator(0, "splits of calibration and test")
        coarse = np.where(random.random(len(truth)) < 0.5, run.tree.parents[truth], truth)
        for kind, cell, score in (
            ("node", node_cells, node_scores),
            ("set", set_cells, set_scores),
        ):
            scores = score(table, truth, run.tree)
            for written, share in ((truth, "none"), (np.asarray(coarse, np.int64), "half")):
                cells = cell(table, written, run.tree)
                for guarantee in GUARANTEES:
                    row = _over_splits(run, kind, written, cells, scores, guarantee)
                    print(f"| {run.name} | {kind} | {share} | {guarantee} | {row} |", flush=True)


def _over_splits(
    run: Measured,
    kind: str,
    written: Array,
    cells: Array,
    scores: Array,
    guarantee: float,
) -> str:
    random = numpy_generator(0, f"{SPLITS} splits")
    below: Callable[[Array, float], Array] = np.less if kind == "node" else np.less_equal
    covered, by_site, thresholds = [], [], []
    for _ in range(SPLITS):
        order, sites = random.permutation(len(scores)), random.permutation(len(scores)) % SITES
        known, new = np.array_split(order, 2)
        counts = ScoreCounts.added(  # each site counts its own
            [
                ScoreCounts.of(written[own], cells[own])
                for own in (known[sites[known] == site] for site in range(SITES))
            ]
        )
        t = counts.threshold(guarantee, run.tree)
        held = below(scores[new], t)
        covered.append(held.mean())
        by_site.append([held[sites[new] == site].mean() for site in range(SITES)])
        thresholds.append(t)
    lowest = np.mean(by_site, axis=0).min()
    one_leaf = _leaf_share(run, kind, float(np.median(thresholds)))
    return f"{np.mean(covered):.4f} | {lowest:.4f} | {one_leaf:.3f}"


def restricted_coverage(folders: list[Path]) -> None:
    """Print coverage where a random third of the leaves is possible, another in every split.

    Then, for the same draws, how well the likeliest leaf's probability is calibrated.
    """
    print("| run | answer | coarse truths | guarantee | covered | images | one leaf |")
    print("|---|---|---|---|---|---|---|")
    for folder in folders:
        run = Measured(folder)
        truth = run.labels(run.test)
        random = numpy_generator(0, "splits of calibration and test")
        coarse = np.where(random.random(len(truth)) < 0.5, run.tree.parents[truth], truth)
        for kind, cell in (("node", node_cells), ("set", set_cells)):
            for written, share in ((truth, "none"), (np.asarray(coarse, np.int64), "half")):
                cells = cell(run.tables()[1], written, run.tree)
                for guarantee in GUARANTEES:
                    row = _restricted_splits(run, kind, written, cells, guarantee)
                    print(f"| {run.name} | {kind} | {share} | {guarantee} | {row} |", flush=True)
        print(f"{run.name}: {_restricted_error(run)}", flush=True)


def _restricted_error(run: Measured) -> str:
    """Return calibration error and accuracy of the likeliest leaf: all possible, and a third."""
    table, truth, leaves = run.tables()[1], run.labels(run.test), run.tree.leaves
    random = numpy_generator(0, "draws of what is possible")

    def measured(rows: Array, allowed: Array) -> tuple[float, float]:
        shown = restricted(table[rows], run.tree, allowed)
        found = predict(shown, run.tree)
        right = found == truth[rows]
        said = np.exp(shown[np.arange(len(rows)), found])
        return reliability(said, right).error, float(right.mean())

    error, accuracy = measured(np.arange(len(truth)), np.ones(len(leaves), np.bool_))
    draws = []
    for _ in range(20):
        allowed = np.isin(leaves, random.choice(leaves, len(leaves) // 3, False))
        draws.append(measured(np.flatnonzero(np.isin(truth, leaves[allowed])), allowed))
    third = np.mean(draws, axis=0)
    return (
        f"calibration error {error:.3f}, leaf accuracy {accuracy:.3f} with all leaves; "
        f"{third[0]:.3f}, {third[1]:.3f} with a third (mean of {len(draws)} draws)"
    )


def _restricted_splits(
    run: Measured, kind: str, written: Array, cells: Array, guarantee: float
) -> str:
    table, truth, tree = run.tables()[1], run.labels(run.test), run.tree
    walked = walked_mass(table, tree) if kind == "set" else np.empty(0)
    random = numpy_generator(0, f"{SPLITS} splits of what is possible")
    covered, images, leaves = [], 0, []
    for _ in range(SPLITS):
        allowed = np.isin(tree.leaves, random.choice(tree.leaves, len(tree.leaves) // 3, False))
        known, new = np.array_split(random.permutation(len(truth)), 2)
        counts = ScoreCounts.of(written[known], cells[known])
        t = counts.threshold(guarantee, tree, allowed)
        new = new[np.isin(truth[new], tree.leaves[allowed])]
        if kind == "set":
            taken = (walked[new] <= t) & allowed
            held = taken[np.arange(len(new)), np.searchsorted(tree.leaves, truth[new])]
            leaves.append((taken.sum(1) <= 1).mean())
        else:
            nodes = guaranteed_nodes(table[new], tree, t, allowed)
            held = tree.is_ancestor(nodes, truth[new])
            leaves.append(tree.is_leaf(nodes).mean())
        covered.append(held.mean())
        images += len(new)
    return f"{np.mean(covered):.4f} | {images / SPLITS:.0f} | {np.mean(leaves):.3f}"


def _leaf_share(run: Measured, kind: str, threshold: float) -> float:
    """Return the share of answers that are one leaf, at a typical threshold."""
    table = run.tables()[1]
    if kind == "node":
        return float(run.tree.is_leaf(guaranteed_nodes(table, run.tree, threshold)).mean())
    return float((leaves_taken(table, run.tree, threshold).sum(1) <= 1).mean())


def strange(folders: list[Path]) -> None:
    """Print how well images of no class are told from others, and how many are called so."""
    print("| run | head | images | number |", *(f"{name} |" for name in SCORES), "called so |")
    print("|---|---|---|---|" + "---|" * (len(SCORES) + 1))
    for folder in folders:
        run = Measured(folder)
        seen = seen_leaves(run.model.full_taxonomy, run.config.seed)
        known = seen[truths(run.model, run.data, run.test)]
        other = load_dataset("glyphs" if run.config.dataset == "cifar100" else "cifar100")
        pixels = other.images[other.split_indices("test")[:MOST_OTHER]]
        trunk = run.model.trunk
        elsewhere = pixels if trunk is None else ThroughTrunk(pixels, trunk)
        bare = replace(run.model, calibration=None)
        groups = {
            "known classes": bare.logits(run.inputs, run.test[known]),
            "unseen classes": bare.logits(run.inputs, run.test[~known]),
            other.name: bare.logits(elsewhere, np.arange(len(pixels))),
        }
        threshold = run.calibration.strangeness.threshold(0.95, run.tree)
        base: dict[str, Array] | None = None
        for name, logits in groups.items():
            found = _strange_scores(run, logits)
            base = base or found
            areas = ("" if found is base else f"{_auroc(found[s], base[s]):.3f}" for s in SCORES)
            called = f"{(found['strangeness'] > threshold).mean():.3f}"
            row = (run.config.dataset, run.model.head_name, name, str(len(logits)), *areas, called)
            print(f"| {' | '.join(row)} |", flush=True)


def _strange_scores(run: Measured, logits: torch.Tensor) -> dict[str, Array]:
    """Return how strange images look by each score: the higher, the stranger."""
    table = tempered(run.model.head, logits, run.calibration.temperature).numpy()
    leaves = table[:, run.tree.leaves].astype(np.float64)
    chance = np.exp(leaves)
    found = (
        -leaves.max(1),
        -logits.double().logsumexp(1).numpy(),
        -(chance * leaves).sum(1),
        strangeness(table, run.tree),
    )
    return dict(zip(SCORES, found, strict=True))


def _auroc(odd: Array, base: Array) -> float:
    """Return how often a strange image scores higher than one of a known class."""
    order = np.sort(base)
    below, upto = (np.searchsorted(order, odd, side) for side in ("left", "right"))
    return float((below + upto).mean() / 2 / len(base))


COMMANDS = {
    "errors": errors,
    "coverage": coverage,
    "restricted": restricted_coverage,
    "strange": strange,
}


def main() -> None:
    """Read the arguments and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=tuple(COMMANDS))
    parser.add_argument("runs", nargs="+", type=Path)
    args = parser.parse_args()
    with one_thread():
        COMMANDS[args.what](args.runs)


if __name__ == "__main__":
    main()

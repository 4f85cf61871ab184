"""What a cell cost: rounds, minutes of one core, bytes."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from fedgrain.checked_json import read_checked_json
from fedgrain.config.config_texts import read_config
from fedgrain.nets import build_net
from fedgrain.preparation.zero_shot import seen_taxonomy
from fedgrain.randomness import numpy_generator, torch_generator_from
from fedgrain.studies.planned_runs import cell_runs
from fedgrain.studies.study_folder import StudyFolder
from fedgrain.tables.collect import Results
from fedgrain.taxonomy import Taxonomy, coarsen
from fedgrain.taxonomy.classes import dataset_taxonomy
from published.cells import Cell

COST = ["rounds", "minutes of one core", "MB sent"]


class Cost(NamedTuple):
    """What a run cost, or a seed of a cell in the mean."""

    rounds: float
    minutes: float
    megabytes: float

    def shown(self) -> list[str]:
        """Return it for the columns of ``COST``."""
        return [f"{self.rounds:.0f}", f"{self.minutes:.1f}", f"{self.megabytes:.0f}"]


def cell_costs(folder: Path, results: Results) -> dict[Cell, Cost]:
    """Return what a seed of each cell cost in the mean: rounds, minutes of one core, bytes.

    Runs before 0.2 recorded the time of their one thread on the clock, which is then given, and who
    trained in each round, from which the bytes follow.
    """
    study, rates, costs = results.study, StudyFolder(folder).rates(), {}
    for dataset, method, alpha in product(study.datasets, study.methods, study.alphas):
        found: list[tuple[float, float, float]] = []
        for seed in study.seeds:
            names = cell_runs(study, dataset, method, alpha, seed, rates)
            paths = [folder / "runs" / name / "result.json" for name in names]
            if all(path.exists() for path in paths):
                rounds, minutes, megabytes = zip(*map(run_cost, paths), strict=True)
                found.append((sum(rounds), sum(minutes), sum(megabytes)))
        if found:
            costs[dataset, method, alpha] = Cost(*map(fmean, zip(*found, strict=True)))
    return costs


def run_cost(result: Path) -> Cost:
    """Return what a run cost, by its ``result.json``."""
    told = read_checked_json(result)
    sent = told["bytes_sent"] if "bytes_sent" in told else sent_in(result)
    seconds = told.get("core_seconds", told["seconds"])
    return Cost(told["rounds"] + told["cycles"], seconds / 60, sent / 1e6)


def sent_in(result: Path) -> int:
    """Return the bytes a run of an older version sent: weights to each client, and back."""
    config = read_config(result.with_name("config.toml")).complete()
    tree = coarse_tree(config.dataset, config.max_children, config.zero_shot and config.seed)
    whole = {"flat-softmax": len(tree.leaves), "softmax-descendant": len(tree),
             "softmax-margin": len(tree)}.get(config.head, len(tree) - 1)  # fmt: skip
    sent = 0
    for line in result.with_name("metrics.jsonl").read_text("utf-8").splitlines():
        about = json.loads(line)
        sent += 8 * len(about["clients"]) * numbers(config.dataset, whole)
        for branch in about.get("branches", []):
            outputs = len(tree.children(tree.index(branch["branch"])))
            sent += 8 * len(branch["clients"]) * numbers(config.dataset, outputs)
    return sent


@cache
def coarse_tree(dataset: str, max_children: int, seed: int | bool) -> Taxonomy:
    """Return H; of a zero-shot run that of the classes its seed has seen."""
    tree = dataset_taxonomy(dataset)
    tree = seen_taxonomy(tree, seed) if seed is not False else tree
    return coarsen(tree, max_children).taxonomy


@cache
def numbers(dataset: str, outputs: int) -> int:
    """Return how many weights the paper's net for a data set has."""
    name = "cnn-32" if dataset == "cifar100" else "cnn-64"
    generator = torch_generator_from(numpy_generator(0, "initial weights"))
    net = build_net(name, outputs, generator=generator)
    return sum(weight.numel() for weight in net.parameters())

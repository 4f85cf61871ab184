"""What the runs of a cell, of one data set, method and alpha, say together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from statistics import fmean

from fedgrain.checked_json import read_checked_json
from fedgrain.studies.planned_runs import cell_runs
from fedgrain.studies.study_folder import StudyFolder
from fedgrain.tables.collect import Results
from fedgrain.tables.intervals import Estimate

Cell = tuple[str, str, float]  # data set, method, alpha


def told_means(folder: Path, results: Results, value: str) -> dict[Cell, float]:
    """Return the mean of each cell of what its results tell by this name, such as accuracy."""
    return cell_means(folder, results, {
        path.parent.name: read_checked_json(path)[value]
        for path in (folder / "runs").glob("*/result.json")
    })  # fmt: skip


def cell_means(folder: Path, results: Results, by_run: Mapping[str, float]) -> dict[Cell, float]:
    """Return the mean of a value over the runs of each cell.

    A cell is left out unless all seeds that its score is the mean of have the value: a mean over
    other seeds would stand beside it.
    """
    study, rates = results.study, StudyFolder(folder).rates()
    metric, means = list(results.metrics)[-1], {}
    for dataset, method, alpha in product(study.datasets, study.methods, study.alphas):
        names = [
            name
            for seed in results.by_seed(dataset, method, alpha, metric)
            for name in cell_runs(study, dataset, method, alpha, seed, rates)
        ]
        if names and all(name in by_run for name in names):
            means[dataset, method, alpha] = fmean(by_run[name] for name in names)
    return means


def again(folder: Path, column: str) -> dict[str, float]:
    """Return HF of ``rescored.json`` by run; nothing where there is no such file."""
    path = folder / "rescored.json"
    if not path.exists():
        return {}
    return {name: row[column]["hf"] for name, row in read_checked_json(path).items()}


def with_interval(found: Estimate, sign: str = "") -> str:
    """Return mean ± half of the interval; the mean alone of one seed."""
    half = "" if found.interval is None else f" ± {found.interval:.3f}"
    return f"{found.mean:{sign}.3f}{half}"

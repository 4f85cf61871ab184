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
    """Return the mean of a value over the runs of each cell for which there is one."""
    study, rates = results.study, StudyFolder(folder).rates()
    means = {}
    for dataset, method, alpha in product(study.datasets, study.methods, study.alphas):
        values = [
            by_run[name]
            for seed in study.seeds
            for name in cell_runs(study, dataset, method, alpha, seed, rates)
            if name in by_run
        ]
        if values:
            means[dataset, method, alpha] = fmean(values)
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

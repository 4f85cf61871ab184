"""What a study ran and searched, and how its methods compare."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from fedgrain.checked_json import read_checked_json
from fedgrain.config.config_texts import read_config
from fedgrain.studies.planned_runs import plan_runs
from fedgrain.studies.study_folder import StudyFolder
from fedgrain.tables.collect import Results
from published.cells import again, cell_means, told_means, with_interval
from published.costs import COST, cell_costs, run_cost
from published.markdown_table import markdown


def ranking(folder: Path, results: Results) -> str:
    """Return a line per cell with any finished seed, best HF first within its alpha."""
    metric, study = list(results.metrics)[-1], results.study
    weighed = cell_means(folder, results, again(folder, "expected-hf"))
    accuracies = told_means(folder, results, "accuracy")
    costs = cell_costs(folder, results)
    rows = []
    for dataset, alpha in product(study.datasets, sorted(study.alphas, reverse=True)):
        found = {
            method: estimate
            for method in study.methods
            if (estimate := results.estimate(dataset, method, alpha, metric)) is not None
        }
        for method, value in sorted(found.items(), key=lambda item: -item[1].mean):
            seeds = len(results.by_seed(dataset, method, alpha, metric))
            also = weighed.get((dataset, method, alpha))
            accuracy = f"{accuracies[dataset, method, alpha]:.3f}"
            named = "" if also is None else f"{also:.3f}"
            row = [f"{alpha:g}", method, f"{seeds}", with_interval(value), accuracy, named]
            rows.append([*row, *costs[dataset, method, alpha].shown()])
    names = ["alpha", "method", "seeds", results.metrics[metric], "leaf accuracy"]
    return markdown([*names, "HF by `expected-hf`", *COST], rows)


def runs(folder: Path, results: Results) -> str:
    """Return a line per finished run: what it was told, how long it went, how it ended."""
    study, rates = results.study, StudyFolder(folder).rates()
    rows = []
    for planned in plan_runs(study, rates):
        path = folder / "runs" / planned.name / "result.json"
        if not path.exists():
            continue
        values = read_checked_json(path)
        config = read_config(path.with_name("config.toml"))  # its caps may be smaller than planned
        rate, length = f"{config.lr:g}", _length(values["rounds"], config.rounds)
        if config.algorithm == "fedbdft":
            rate += f", branches {config.branch_lr:g}"
            length += f" + {_length(values['cycles'], config.cycles)} cycles"
        scores = [f"{values[name]:.3f}" for name in ("hf", "hr", "hp", "accuracy")]
        told = [rate, length, f"{values['validation_hf']:.3f}", *scores]
        rows.append([f"`{planned.name}`", *told, *run_cost(path).shown()[1:]])
    names = ["run", "lr", "rounds", "validation HF", "HF", "HR", "HP", "leaf accuracy"]
    return markdown([*names, *COST[1:]], rows)


def _length(reached: int, cap: int) -> str:
    return f"{reached}" + " (cap)" * (reached >= cap)


def rescored(folder: Path, results: Results) -> str:
    """Return a line per run: HF (HR, HP) by each prediction rule, and with depths counted on H."""
    scores = read_checked_json(folder / "rescored.json")
    names = [run.name for run in plan_runs(results.study, StudyFolder(folder).rates())]
    shown = [name for name in names if name in scores]
    columns = list(scores[shown[0]])
    rows = [[f"`{name}`", *(_three(scores[name][column]) for column in columns)] for name in shown]
    return markdown(["run; HF (HR, HP)", *columns], rows)


def _three(values: Mapping[str, float]) -> str:
    return f"{values['hf']:.3f} ({values['hr']:.3f}, {values['hp']:.3f})"


def search(folder: Path) -> str:
    """Return validation HF per method and candidate, the rate taken in bold."""
    tables = read_checked_json(folder / "search.json")["tables"]
    blocks = []
    for dataset, searched in tables.items():
        for setting in ("lr", "branch_lr"):
            chosen = {m: table for m, table in searched.items() if table["setting"] == setting}
            if not chosen:
                continue
            values = list(next(iter(chosen.values()))["mean_validation_hf"])
            rows = [[m, *(_score(table, value) for value in values)] for m, table in chosen.items()]
            blocks.append(markdown([f"{dataset}, {setting}", *values], rows))
    return "\n".join(blocks)


def _score(table: dict[str, Any], value: str) -> str:
    mean = table["mean_validation_hf"][value]
    if mean is None:
        return "diverged"
    return f"**{mean:.3f}**" if float(value) == table["best"] else f"{mean:.3f}"

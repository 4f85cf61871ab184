"""A study beside the paper's tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from statistics import fmean

from fedgrain.checked_json import read_checked_json
from fedgrain.config.config_texts import read_config
from fedgrain.studies.methods import method_name
from fedgrain.tables.collect import Results, paper_figures
from published.cells import Cell, again, cell_means, with_interval
from published.costs import COST, Cost, cell_costs
from published.markdown_table import markdown

NOT_COMPARABLE = "not comparable"  # in reasons.toml: why no figure of the study is


def verdicts(folder: Path, results: Results) -> str:
    """Return a line per cell of the paper's table: reproduced within its interval, or not."""
    reasons: dict[str, str] = {}
    if (folder / "reasons.toml").exists():
        reasons = tomllib.loads((folder / "reasons.toml").read_text("utf-8"))
    judged = list(results.metrics) if results.study.zero_shot else ["hf"]
    on_coarse = cell_means(folder, results, again(folder, "leaf, on H"))
    cells = sorted(
        paper_figures(results.study.zero_shot).items(), key=lambda item: (-item[0][2], item[0][1])
    )
    costs = cell_costs(folder, results)
    rows = []
    for (cell, figures), metric in product(cells, judged):
        dataset, method, alpha = cell
        if dataset not in results.study.datasets:
            continue
        mean, interval = figures[metric]
        row = [f"{alpha:g}", method, results.metrics[metric], f"{mean:.3f} ± {interval:.3f}"]
        found = results.estimate(dataset, method, alpha, metric)
        if found is None:
            row += ["", "", "not run", *[""] * (1 + len(COST)), _would_cost(method, costs, reasons)]
        else:
            seeds = len(results.by_seed(dataset, method, alpha, metric))
            coarse = on_coarse.get(cell)
            verdict, why = _judge(cell, found.mean, coarse, figures[metric], reasons)
            also = "" if coarse is None else f"{coarse:.3f}"
            if coarse is not None and abs(coarse - mean) <= interval:
                also += ", inside"
            row += [f"{with_interval(found)} ({seeds})", f"{found.mean - mean:+.3f}", verdict, also]
            row += [*costs[cell].shown(), why]
        rows.append(row)
    names = ["alpha", "method", "score", "the paper's", "ours (seeds)", "difference", "verdict"]
    return markdown([*names, "ours scored on H", *COST, "why"], rows)


def _judge(
    cell: Cell,
    ours: float,
    coarse: float | None,
    paper: tuple[float, float],
    reasons: Mapping[str, str],
) -> tuple[str, str]:
    """Return the verdict on a cell and the reason for it."""
    if NOT_COMPARABLE in reasons:
        return NOT_COMPARABLE, reasons[NOT_COMPARABLE]
    mean, interval = paper
    if abs(ours - mean) <= interval:
        return "reproduced", ""
    _, method, alpha = cell
    found_out = depth_convention(ours - mean, coarse, mean, interval)
    return "differs", reasons.get(f"{method}@{alpha:g}", found_out)


def _would_cost(method: str, costs: Mapping[Cell, Cost], reasons: Mapping[str, str]) -> str:
    """Say what a seed of a cell that was not run would take, by the cells of its method."""
    of_method = [cost.minutes for (_, name, _), cost in costs.items() if name == method]
    minutes = fmean(of_method or [cost.minutes for cost in costs.values()])
    kin = "this method elsewhere" if of_method else "the others here"
    branches = " and more for its branches" * (not of_method and method.startswith("fedbdft"))
    takes = f"would take about {minutes:.0f} minutes of one core a seed, as {kin}{branches}"
    return takes + (f"; {reasons['not run']}" if "not run" in reasons else "")


def depth_convention(difference: float, coarse: float | None, paper: float, interval: float) -> str:
    """Say how much of a difference goes away where depths are counted on H."""
    if coarse is None:
        return "not looked into: its weights were not scored on H"
    if abs(coarse - paper) <= interval:
        return "inside if scored on H"
    share = 1 - (coarse - paper) / difference
    return f"the class tree, perhaps: {share:.0%} of it goes away if scored on H"


def trees(folder: Path) -> str:
    """Return a line per reading of the class hierarchy: HF of the same predictions on it."""
    scores = read_checked_json(folder / "trees.json")
    names, papers = [], []
    for name in scores:
        config = read_config(folder / "runs" / name / "config.toml").complete()
        method = method_name(config)
        names.append(f"{method}, alpha {config.alpha:g}")
        papers.append(paper_figures(config.zero_shot)[config.dataset, method, config.alpha]["hf"])
    rows = []
    for reading, of in next(iter(scores.values())).items():
        found = [scores[name][reading]["hf"] for name in scores]
        inside = sum(abs(hf - mean) <= by for hf, (mean, by) in zip(found, papers, strict=True))
        shown = [f"{hf:.3f}" for hf in found]
        rows.append([reading, f"{of['depth']}", *shown, f"{inside} of {len(found)}"])
    rows.append(["**the paper**", "", *(f"{mean:.3f} ± {by:.3f}" for mean, by in papers), ""])
    return markdown(["scored on", "depth", *names, "inside the paper's"], rows)

"""Copy what a study found, without weights and images, and write its tables and figures from that.

    python scripts/publish_study.py STUDY docs/results/cifar100   # copy what is finished, write
    python scripts/publish_study.py docs/results/cifar100         # write again from the copy
    python scripts/publish_study.py --check docs/results/cifar100 # fail if a table is out of date

The copy is a study folder as well: `fedgrain table` and `fedgrain report --no-images` read it.
``reasons.toml`` in it, written by hand, says why a figure differs from the paper's;
``rescored.json``, by `scripts/score_again.py`, holds what its models score by other rules,
``trees.json``, by `scripts/score_on_trees.py`, what they score on other class hierarchies.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from fedgrain.checked_json import read_checked_json
from fedgrain.files import write_text
from fedgrain.nets import build_net
from fedgrain.pictures.study_figures import draw_study
from fedgrain.preparation.config_texts import read_config
from fedgrain.preparation.zero_shot import seen_taxonomy
from fedgrain.randomness import numpy_generator, torch_generator_from
from fedgrain.studies.collect import Results, paper_figures, read_results
from fedgrain.studies.intervals import Estimate
from fedgrain.studies.methods import method_name
from fedgrain.studies.planned_runs import cell_runs, plan_runs
from fedgrain.studies.study_folder import StudyFolder
from fedgrain.studies.table_formats import format_tables
from fedgrain.studies.tables import score_tables
from fedgrain.taxonomy import Taxonomy, coarsen
from fedgrain.taxonomy.classes import dataset_taxonomy

KEPT = ("config.toml", "result.json", "metrics.jsonl", "environment.json")
ON_TRUNK = "-trunk"  # the end of the names of studies that repeat another one on a trunk


def copy_finished(study: Path, target: Path) -> None:
    """Copy the small files of the study and of its finished runs."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("study.toml", "search.json"):
        if (study / name).exists():
            shutil.copyfile(study / name, target / name)
    for result in sorted((study / "runs").glob("*/result.json")):
        place = target / "runs" / result.parent.name
        place.mkdir(parents=True, exist_ok=True)
        for name in KEPT:
            shutil.copyfile(result.parent / name, place / name)


def fragments(folder: Path) -> dict[str, str]:
    """Return every table of the page by file name, made from the copy alone."""
    results = read_results(folder)
    tables = {
        "scores.md": format_tables(score_tables(results), "markdown"),
        "runs.md": runs(folder, results),
        "ranking.md": ranking(folder, results),
    }
    if folder.name.endswith(ON_TRUNK):  # not the paper's experiment: has the same one beside it
        tables["from_scratch.md"] = from_scratch(folder, results)
        tables["questions.md"] = questions(results)
    elif any(method.endswith("/paper") for method in results.study.methods):
        tables["verdicts.md"] = verdicts(folder, results)
    elif len(results.study.seeds) > 1:
        tables["differences.md"] = differences(folder, results)
    if (folder / "search.json").exists():
        tables["search.md"] = search(folder)
    if (folder / "rescored.json").exists():
        tables["rescored.md"] = rescored(folder, results)
    if (folder / "trees.json").exists():
        tables["trees.md"] = trees(folder)
    return {name: text.rstrip("\n") + "\n" for name, text in tables.items()}


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
        start = [f"{alpha:g}", method, results.metrics[metric], f"{mean:.3f} ± {interval:.3f}"]
        found = results.estimate(dataset, method, alpha, metric)
        if found is None:
            rows.append([*start, "", "", "not run", "", _would_cost(method, costs)])
            continue
        seeds, coarse = len(results.by_seed(dataset, method, alpha, metric)), on_coarse.get(cell)
        shown = f"{_with_interval(found)} ({seeds})"
        difference = found.mean - mean
        inside = abs(difference) <= interval
        verdict = "reproduced" if inside else "differs"
        why = ""
        if not inside:
            found_out = depth_convention(difference, coarse, mean, interval)
            why = reasons.get(f"{method}@{alpha:g}", found_out)
        also = "" if coarse is None else f"{coarse:.3f}"
        if coarse is not None and abs(coarse - mean) <= interval:
            also += ", inside"
        rows.append([*start, shown, f"{difference:+.3f}", verdict, also, why])
    names = ["alpha", "method", "score", "the paper's", "ours (seeds)", "difference", "verdict"]
    return markdown([*names, "ours scored on H", "why"], rows)


def _would_cost(method: str, costs: Mapping[tuple[str, str, float], Cost]) -> str:
    """Say what a seed of a cell that was not run would take, by the cells of its method."""
    of_method = [cost.minutes for (_, name, _), cost in costs.items() if name == method]
    known = of_method or [cost.minutes for cost in costs.values()]
    kin = "this method" if of_method else "the others"
    return f"a seed would take {fmean(known):.0f} minutes of one core, as {kin} elsewhere"


def differences(folder: Path, results: Results) -> str:
    """Return a line per cell: its difference from the study's first method over common seeds."""
    study, rows = results.study, []
    reference = study.methods[0]
    chosen = told_means(folder, results, "validation_hf")
    accuracies, costs = told_means(folder, results, "accuracy"), cell_costs(folder, results)
    for dataset, alpha in product(study.datasets, sorted(study.alphas, reverse=True)):
        for method in study.methods:
            cell = dataset, method, alpha
            found = results.estimate(dataset, method, alpha, "hf")
            if found is None:
                continue
            seeds = len(results.by_seed(dataset, method, alpha, "hf"))
            apart = results.difference(dataset, method, reference, alpha, "hf")
            away = "" if method == reference or apart is None else _with_interval(apart, "+")
            scores = [f"{chosen[cell]:.3f}", _with_interval(found), away]
            shown = [f"{alpha:g}", named_by(reference, method), f"{seeds}", *scores]
            shown.append(f"{accuracies[cell]:.3f}")
            rows.append([*shown, *costs[cell].shown()])
    names = ["alpha", "method", "seeds", "validation HF", "HF", "difference in HF"]
    return markdown([*names, "leaf accuracy", *COST], rows)


def named_by(reference: str, method: str) -> str:
    """Return what a method has and leaves out of another one; the whole name of that one."""
    if method == reference:
        return method
    base, *settings = method.split("+")
    of_base, *of_reference = reference.split("+")
    keys = {setting.partition("=")[0] for setting in settings}
    left_out = [one for one in of_reference if one.partition("=")[0] not in keys]
    added = [one for one in settings if one not in of_reference]
    parts = [base] * (base != of_base) + [f"without {one}" for one in left_out]
    return ", ".join([*parts, *(f"with {one}" for one in added)])


def from_scratch(folder: Path, results: Results) -> str:
    """Return a line per cell of a study on a trunk, beside the same method from scratch.

    That is of the study whose folder has the same name without ``ON_TRUNK``.
    """
    origin = folder.with_name(folder.name.removesuffix(ON_TRUNK))
    scratch = read_results(origin)
    accuracies = told_means(folder, results, "accuracy")
    of_scratch = told_means(origin, scratch, "accuracy")
    study, rows = results.study, []
    for dataset, alpha in product(study.datasets, sorted(study.alphas, reverse=True)):
        for method in study.methods:
            found = results.estimate(dataset, method, alpha, "hf")
            if found is None:
                continue
            seeds = len(results.by_seed(dataset, method, alpha, "hf"))
            row = [f"{alpha:g}", method, _with_interval(found), f"{seeds}"]
            row.append(f"{accuracies[dataset, method, alpha]:.3f}")
            other = _kin(method, dataset, alpha, scratch)
            if other is None:
                rows.append([*row, "not run", "", ""])
                continue
            value = scratch.estimate(dataset, other, alpha, "hf")
            assert value is not None
            rows.append([*row, _with_interval(value), f"{of_scratch[dataset, other, alpha]:.3f}",
                         "" if other == method else f"`{other}`"])  # fmt: skip
    names = ["alpha", "method", "HF on the trunk", "seeds", "leaf accuracy"]
    return markdown([*names, "HF from scratch", "leaf accuracy", "there named"], rows)


def _kin(method: str, dataset: str, alpha: float, scratch: Results) -> str | None:
    """Return the method from scratch most like one on the trunk, of those that were run."""
    base, *rest = method.split("+")
    averaged = "+".join([base, "average_rounds=10", *rest])
    for name in (averaged, method, base):
        known = name in scratch.study.methods
        if known and scratch.estimate(dataset, name, alpha, "hf") is not None:
            return name
    return None


def questions(results: Results) -> str:
    """Return the paper's questions per alpha: what FedBDFT gains, what projection, what is lost."""
    study, rows = results.study, []
    (dataset,) = study.datasets
    lowest = min(study.alphas)

    def mean(method: str, alpha: float) -> float | None:
        found = results.estimate(dataset, method, alpha, "hf")
        return None if found is None else found.mean

    def difference(one: float | None, other: float | None) -> str:
        return "not run" if one is None or other is None else f"{one - other:+.3f}"

    reading = [m for m in study.methods if m.startswith("flat-softmax/projection")]
    papers = [m for m in study.methods if m.endswith("/paper")]
    for alpha in sorted(study.alphas, reverse=True):
        ours = mean(reading[0], alpha)
        best = max((v for m in papers if (v := mean(m, alpha)) is not None), default=None)
        rows.append([
            f"{alpha:g}",
            difference(mean("fedbdft/paper", alpha), mean("cond-softmax/paper", alpha)),
            difference(mean("fedbdft/projection", alpha), mean("cond-softmax/projection", alpha)),
            difference(ours, best),
            difference(ours, mean(reading[0], lowest)),
            difference(mean("fedbdft/paper", alpha), mean("fedbdft/paper", lowest)),
        ])  # fmt: skip
    names = ["alpha", "FedBDFT over its first stage", "the same under projection"]
    names += ["flat-softmax/projection over the best of the paper's seven"]
    names += [f"flat-softmax/projection against alpha {lowest:g}", "fedbdft/paper against it"]
    return markdown(names, rows)


def told_means(folder: Path, results: Results, value: str) -> dict[tuple[str, str, float], float]:
    """Return the mean of each cell of what its results tell by this name, such as accuracy."""
    return cell_means(folder, results, {
        path.parent.name: read_checked_json(path)[value]
        for path in (folder / "runs").glob("*/result.json")
    })  # fmt: skip


def depth_convention(difference: float, coarse: float | None, paper: float, interval: float) -> str:
    """Say how much of a difference goes away where depths are counted on H."""
    if coarse is None:
        return "not found yet"
    if abs(coarse - paper) <= interval:
        return "inside if scored on H"
    share = 1 - (coarse - paper) / difference
    return f"the class tree, perhaps: {share:.0%} of it goes away if scored on H"


def _with_interval(found: Estimate, sign: str = "") -> str:
    half = "" if found.interval is None else f" ± {found.interval:.3f}"
    return f"{found.mean:{sign}.3f}{half}"


def cell_means(
    folder: Path, results: Results, by_run: Mapping[str, float]
) -> dict[tuple[str, str, float], float]:
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
            row = [f"{alpha:g}", method, f"{seeds}", _with_interval(value), accuracy, named]
            rows.append([*row, *costs[dataset, method, alpha].shown()])
    names = ["alpha", "method", "seeds", results.metrics[metric], "leaf accuracy"]
    return markdown([*names, "HF by `expected-hf`", *COST], rows)


COST = ["rounds", "minutes of one core", "MB sent"]


class Cost(NamedTuple):
    """What a seed of a cell cost in the mean."""

    rounds: float
    minutes: float
    megabytes: float

    def shown(self) -> list[str]:
        """Return it for the columns of ``COST``."""
        return [f"{self.rounds:.0f}", f"{self.minutes:.1f}", f"{self.megabytes:.0f}"]


def cell_costs(folder: Path, results: Results) -> dict[tuple[str, str, float], Cost]:
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
            if not all(path.exists() for path in paths):
                continue
            values = [read_checked_json(path) for path in paths]
            pairs = zip(values, paths, strict=True)
            sent = [one["bytes_sent"] if "bytes_sent" in one else sent_in(p) for one, p in pairs]
            found.append((
                sum(one["rounds"] + one["cycles"] for one in values),
                sum(one.get("core_seconds", one["seconds"]) for one in values) / 60,
                sum(sent) / 1e6,
            ))  # fmt: skip
        if found:
            costs[dataset, method, alpha] = Cost(*map(fmean, zip(*found, strict=True)))
    return costs


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


def rescored(folder: Path, results: Results) -> str:
    """Return a line per run: HF (HR, HP) by each prediction rule, and with depths counted on H."""
    scores = read_checked_json(folder / "rescored.json")
    names = [run.name for run in plan_runs(results.study, StudyFolder(folder).rates())]
    shown = [name for name in names if name in scores]
    columns = list(scores[shown[0]])
    rows = [[f"`{name}`", *(_three(scores[name][column]) for column in columns)] for name in shown]
    return markdown(["run; HF (HR, HP)", *columns], rows)


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


def _three(values: Mapping[str, float]) -> str:
    return f"{values['hf']:.3f} ({values['hr']:.3f}, {values['hp']:.3f})"


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
        rows.append([f"`{planned.name}`", rate, length, f"{values['validation_hf']:.3f}", *scores])
    names = ["run", "lr", "rounds", "validation HF", "HF", "HR", "HP", "leaf accuracy"]
    return markdown(names, rows)


def _length(reached: int, cap: int) -> str:
    return f"{reached}" + " (cap)" * (reached >= cap)


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


def markdown(names: list[str], rows: list[list[str]]) -> str:
    """Return a table."""
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def out_of_date(tables: Mapping[Path, str]) -> int:
    """Say which files do not hold their table; return the exit code."""
    old = [
        path for path, text in tables.items()
        if not path.exists() or path.read_text("utf-8") != text
    ]  # fmt: skip
    print(f"out of date: {', '.join(map(str, old))}" if old else "all tables are up to date")
    return 1 if old else 0


def main() -> int:
    """Copy, write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path, help="the study's folder, or the copy itself")
    parser.add_argument("target", type=Path, nargs="?", help="where the copy goes")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    args = parser.parse_args()
    folder = args.target or args.study
    if args.target and not args.check:
        copy_finished(args.study, args.target)
    tables = {folder / name: text for name, text in fragments(folder).items()}
    if args.check:
        return out_of_date(tables)
    for path, text in tables.items():
        write_text(path, text)
    for path in draw_study(folder, read_results(folder)):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

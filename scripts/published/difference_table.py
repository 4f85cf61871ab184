"""How far the methods of a study are from its first one."""

from __future__ import annotations

import tomllib
from itertools import product
from pathlib import Path

from fedgrain.tables.collect import Results
from published.cells import told_means, with_interval
from published.costs import COST, cell_costs
from published.markdown_table import markdown

NAMES = "names.toml"  # what readers call the methods, written by hand


def differences(folder: Path, results: Results) -> str:
    """Return a line per cell: its difference from the study's first method over common seeds."""
    study, rows = results.study, []
    reference, names = study.methods[0], names_of(folder, results)
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
            away = "" if method == reference or apart is None else with_interval(apart, "+")
            scores = [f"{chosen[cell]:.3f}", with_interval(found), away]
            shown = [f"{alpha:g}", names[method], f"{seeds}", *scores]
            shown.append(f"{accuracies[cell]:.3f}")
            rows.append([*shown, *costs[cell].shown()])
    columns = ["alpha", "method", "seeds", "validation HF", "HF", "difference in HF"]
    return markdown([*columns, "leaf accuracy", *COST], rows)


def names_of(folder: Path, results: Results) -> dict[str, str]:
    """Return what readers call each method: its name by hand, or how it differs from the first."""
    methods = results.study.methods
    names = {method: named_by(methods[0], method) for method in methods}
    if (folder / NAMES).exists():
        given = tomllib.loads((folder / NAMES).read_text("utf-8"))
        for method in given:
            if method not in names:
                raise SystemExit(f"{folder / NAMES}: {method} is no method of the study")
        names |= given
    return names


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

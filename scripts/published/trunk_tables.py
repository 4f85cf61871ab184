"""A study on a trunk beside the same one from scratch."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from fedgrain.studies.methods import parse_method
from fedgrain.tables.collect import Results, read_results
from published.cells import told_means, with_interval
from published.markdown_table import markdown

ON_TRUNK = "-trunk"  # the end of the names of such studies


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
            row = [f"{alpha:g}", method, with_interval(found), f"{seeds}"]
            row.append(f"{accuracies[dataset, method, alpha]:.3f}")
            other = _kin(method, dataset, alpha, scratch)
            if other is None:
                rows.append([*row, "not run", "", ""])
                continue
            value = scratch.estimate(dataset, other, alpha, "hf")
            assert value is not None
            rows.append([*row, with_interval(value), f"{of_scratch[dataset, other, alpha]:.3f}",
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

    def over(one: str, other: str | None, alpha: float) -> str:
        found = other and results.difference(dataset, one, other, alpha, "hf")
        return f"{found.mean:+.3f}" if found else "not run"

    reading = [m for m in study.methods if m.startswith("flat-softmax/projection")]
    papers = [m for m in study.methods if parse_method(m).baseline or m == "fedbdft/paper"]
    for alpha in sorted(study.alphas, reverse=True):
        ours = mean(reading[0], alpha)
        there = {m: value for m in papers if (value := mean(m, alpha)) is not None}
        best = max(there, key=there.__getitem__, default=None)
        rows.append([
            f"{alpha:g}",
            over("fedbdft/paper", "cond-softmax/paper", alpha),
            over("fedbdft/projection", "cond-softmax/projection", alpha),
            over(reading[0], best, alpha),
            difference(ours, mean(reading[0], lowest)),
            difference(mean("fedbdft/paper", alpha), mean("fedbdft/paper", lowest)),
        ])  # fmt: skip
    names = ["alpha", "FedBDFT over its first stage", "the same under projection"]
    names += ["flat-softmax/projection over the best of the paper's seven"]
    names += [f"flat-softmax/projection against alpha {lowest:g}", "fedbdft/paper against it"]
    return markdown(names, rows)

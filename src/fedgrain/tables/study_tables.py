"""The tables of a study: scores, differences, gains, and the properties of the hierarchies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from fedgrain.checked_json import read_checked_json
from fedgrain.errors import StudyError
from fedgrain.studies.methods import Skew, is_bound, parse_method, skew_name
from fedgrain.tables.collect import Results, paper_figures, run_folders
from fedgrain.tables.intervals import Estimate

_DIGITS = 3


@dataclass(frozen=True)
class Cell:
    """One entry: a mean with its interval, or the values of too few seeds."""

    mean: float
    interval: float | None = None
    values: tuple[float, ...] = ()
    rank: int | None = None  # 1 is the best of its column, 2 the second


@dataclass(frozen=True)
class Column:
    """A column: its group (an alpha, a data set) and its name."""

    group: str
    name: str
    digits: int = _DIGITS
    percent: bool = False
    signed: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of named cells; every format is made from this."""

    title: str
    corner: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]


def score_tables(results: Results, paper: bool = False, paired: str | None = None) -> list[Table]:
    """Return the scores: a table per data set, or one for all of a zero-shot study."""
    study = results.study
    if paired is not None and paired not in study.methods:
        raise StudyError(
            f"there is no method {paired!r} in the study; it has {', '.join(study.methods)}"
        )
    if study.zero_shot:
        zero = [(dataset, study.skews[0], dataset) for dataset in study.datasets]
        return [_score_table(results, "Zero-shot", zero, paper, paired)]
    tables = []
    for dataset in study.datasets:
        groups = [(dataset, alpha, skew_name(alpha)) for alpha in study.skews]
        tables.append(_score_table(results, dataset, groups, paper, paired))
    return tables


def _score_table(
    results: Results,
    title: str,
    groups: Sequence[tuple[str, Skew, str]],
    paper: bool,
    paired: str | None,
) -> Table:
    """Make one table whose groups are (data set, alpha, heading)."""
    methods, metrics = results.study.methods, results.metrics
    columns: list[Column] = []
    filled: list[dict[str, Cell | None]] = []  # per column, by row
    for dataset, alpha, heading in groups:
        for metric, name in metrics.items():
            columns.append(Column(heading, name))
            entries = {m: score_cell(results.estimate(dataset, m, alpha, metric)) for m in methods}
            filled.append(with_ranks(entries))
            if paper:
                filled[-1] |= {
                    f"{m} (paper)": _paper_cell(results, dataset, m, alpha, metric) for m in methods
                }
        if paired is not None:
            metric = list(metrics)[-1]
            columns.append(Column(heading, f"{metrics[metric]} - {paired}", signed=True))
            filled.append(
                {
                    m: score_cell(results.difference(dataset, m, paired, alpha, metric))
                    for m in methods
                    if m != paired
                }
            )
    names = [name for m in methods for name in ([m, f"{m} (paper)"] if paper else [m])]
    rows = [(name, tuple(column.get(name) for column in filled)) for name in names]
    kept = [(name, cells) for name, cells in rows if name in methods or any(cells)]
    return Table(title, "method", tuple(columns), tuple(kept))


def score_cell(found: Estimate | None) -> Cell | None:
    """Return the entry of an estimate."""
    return None if found is None else Cell(found.mean, found.interval, found.values)


def _paper_cell(
    results: Results, dataset: str, method: str, alpha: Skew, metric: str
) -> Cell | None:
    figures = paper_figures(results.study.zero_shot).get((dataset, method, alpha))
    return Cell(*figures[metric]) if figures else None


def with_ranks(entries: dict[str, Cell | None]) -> dict[str, Cell | None]:
    """Mark best and second best as printed; bounds, and means of too few seeds, are not ranked."""
    competing = {
        name: cell for name, cell in entries.items() if cell is not None and not is_bound(name)
    }
    if len(competing) < 2 or any(cell.interval is None for cell in competing.values()):
        return entries
    printed = {name: round(cell.mean, _DIGITS) for name, cell in competing.items()}
    places = sorted(set(printed.values()), reverse=True)[:2]
    marks = {
        name: replace(competing[name], rank=places.index(value) + 1)
        for name, value in printed.items()
        if value in places
    }
    return {**entries, **marks}


def gains_tables(results: Results, paper: bool = False) -> list[Table]:
    """Return each method's relative gain in HF over the baselines: heads under the paper's rule.

    Computed in two ways: over the baselines' mean HF, and as the mean of the gains over each.
    """
    study = results.study
    tables = []
    for dataset in study.datasets:
        own = {
            (m, alpha): found.mean
            for m in study.methods
            for alpha in study.skews
            if (found := results.estimate(dataset, m, alpha, list(results.metrics)[-1]))
        }
        title = f"Relative gain over the baselines, {dataset}"
        tables.append(_gains(title, study.methods, study.skews, own))
        figures = paper_figures(study.zero_shot)
        theirs = {
            (m, alpha): values[list(results.metrics)[-1]][0]
            for (name, m, alpha), values in figures.items()
            if name == dataset
        }
        if paper and theirs:
            methods = tuple(dict.fromkeys(m for m, _ in theirs))
            tables.append(_gains(f"{title}, the paper's figures", methods, study.skews, theirs))
    return tables


def _gains(
    title: str,
    methods: Sequence[str],
    alphas: Sequence[Skew],
    hf: dict[tuple[str, Skew], float],
) -> Table:
    columns = []
    filled: list[dict[str, Cell]] = []
    baselines = [m for m in methods if parse_method(m).baseline]
    for alpha in alphas:
        over_mean: dict[str, Cell] = {}
        mean_over: dict[str, Cell] = {}
        for m in methods:
            others = [hf[b, alpha] for b in baselines if b != m and hf.get((b, alpha))]
            if others and (m, alpha) in hf:
                mine = hf[m, alpha]
                over_mean[m] = Cell(mine / fmean(others) - 1)
                mean_over[m] = Cell(fmean(mine / other - 1 for other in others))
        for name, cells in (("over their mean", over_mean), ("mean over each", mean_over)):
            columns.append(Column(skew_name(alpha), name, digits=1, percent=True, signed=True))
            filled.append(cells)
    rows = tuple((m, tuple(column.get(m) for column in filled)) for m in methods)
    return Table(title, "method", tuple(columns), rows)


def hierarchy_table(folder: str | Path, results: Results) -> Table:
    """Return the properties of H_full and H per data set, from the first finished run of each."""
    from fedgrain.taxonomy import from_json

    study = results.study
    names = {"nodes": 0, "internal": 0, "max_depth": 0, "mean_children": 2}
    rows = []
    for dataset in study.datasets:
        cells = ((m, a, s) for m in study.methods for a in study.skews for s in study.seeds)
        places = (place for cell in cells for place in run_folders(folder, study, dataset, *cell))
        finished = next((place for place in places if place.model.exists()), None)
        if finished is None:
            continue
        about = read_checked_json(finished.model)
        for key, name in (("full_taxonomy", "full"), ("taxonomy", "coarsened")):
            properties = from_json(about[key], f"{finished.model}, {key}").properties()
            rows.append((f"{dataset}, {name}", tuple(Cell(float(properties[n])) for n in names)))
    columns = tuple(Column("", n.replace("_", " "), digits=d) for n, d in names.items())
    return Table("Class hierarchies", "hierarchy", columns, tuple(rows))

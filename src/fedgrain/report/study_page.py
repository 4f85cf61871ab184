"""The report of a study. Every run is read once; only means and bounded tables are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from fedgrain.catalogue import rounds_axis
from fedgrain.checked_json import read_checked_json
from fedgrain.files import read_text
from fedgrain.plugins import Trust
from fedgrain.preparation.config import Config
from fedgrain.report.answers import Watch, no_watch
from fedgrain.report.close_look import Look, look_closely
from fedgrain.report.glossary import WORDS
from fedgrain.report.interactive_plots import over_alpha
from fedgrain.report.page import curves_view, environment_of, settings_sheet
from fedgrain.report.page_parts import Block, Page, View
from fedgrain.report.page_tables import Sheet, setting, sheet, sheet_of
from fedgrain.report.redo import run_command, study_command
from fedgrain.report.run_page import knowledge_block
from fedgrain.report.site_figures import alone_plot, by_site
from fedgrain.runs.run_folder import RunFolder
from fedgrain.studies.alone import AloneRow, alone_note, alone_rows, alone_tables
from fedgrain.studies.collect import Results, read_results
from fedgrain.studies.headline import sentence
from fedgrain.studies.methods import Skew, is_bound, method_name, skew_name
from fedgrain.studies.site_tables import site_estimates
from fedgrain.studies.study import PlannedRun, cell_runs, plan_runs
from fedgrain.studies.study_folder import Rates, StudyFolder
from fedgrain.studies.tables import score_tables


def study_page(
    folder: Path, *, images: bool, trust_code: Trust = False, watch: Watch = no_watch
) -> Page:
    """Gather the report of a study, finished or not."""
    results, place = read_results(folder), StudyFolder(folder)
    rates = place.rates()
    planned = plan_runs(results.study, rates)
    values = {
        run.name: found.read_result()
        for run in planned
        if (found := RunFolder(place.runs / run.name)).result.exists()
    }
    look, looked_at = _closest(results, place, rates, images, trust_code, watch)
    scores = _over_alpha_block(results) if results.study.simulated else _by_site_block(results)
    rows = alone_rows(results)
    blocks = [_alone_block(rows)] if rows else []
    blocks += [scores, _training_block(results, place, rates), *look.blocks]
    if look.knowledge:
        chosen_by = "alpha" if results.study.simulated else ""
        blocks.append(knowledge_block(look.knowledge, chosen_by))
    first = next((RunFolder(place.runs / name) for name in values), None)
    notes = [*(f"{left}." for left in results.left()), *look.notes]
    return Page(
        title=results.study.name,
        kind="study",
        sentence=sentence(results),
        sheets=tuple(map(sheet_of, score_tables(results))),
        blocks=tuple(block for block in blocks if block.views),
        close=look.close,
        settings=_settings(planned, values, place, rates, results),
        redo=_redo(results, place, looked_at),
        source=read_text(place.study),
        source_name="study.toml",
        environment=environment_of(first) if first else {},
        notes=tuple(notes),
        sections=tuple(look.sections),
        glossary=WORDS,
    )


def _cell(
    results: Results, place: StudyFolder, rates: Rates, cell: tuple[str, str, Skew]
) -> list[RunFolder]:
    """Return the finished runs of a data set, method and alpha, over all seeds."""
    study = results.study
    names = (name for seed in study.seeds for name in cell_runs(study, *cell, seed, rates))
    places = [RunFolder(place.runs / name) for name in names]
    return [found for found in places if found.result.exists()]


def _closest(
    results: Results, place: StudyFolder, rates: Rates, images: bool, trust: Trust, watch: Watch
) -> tuple[Look, RunFolder | None]:
    """Inspect the best method at the largest skew: its first finished run."""
    study, metric = results.study, list(results.metrics)[-1]
    dataset = study.datasets[0]
    methods = [m for m in study.methods if not is_bound(m)]
    for alpha in reversed(study.ascending):
        means = {m: results.estimate(dataset, m, alpha, metric) for m in methods}
        order = sorted((m for m in methods if means[m]), key=lambda m: -means[m].mean)  # type: ignore[union-attr]
        for method in order:
            for found in _cell(results, place, rates, (dataset, method, alpha)):
                if found.model.exists():
                    configs = _knowledge_configs(results, rates, dataset, method)
                    name = found.path.name
                    look = look_closely(
                        found, name, configs, images=images, trust_code=trust, watch=watch
                    )
                    return look, found
    return Look(notes=["No finished run has a model to look at."]), None


def _knowledge_configs(
    results: Results, rates: Rates, dataset: str, method: str
) -> dict[str, Config]:
    """Return a config per alpha, the largest first: at a seed every method has the same clients."""
    study = results.study
    cells = {
        skew_name(alpha) or "knowledge": cell_runs(
            study, dataset, method, alpha, study.seeds[0], rates
        )
        for alpha in reversed(study.ascending)
    }
    return {name: next(iter(runs.values())) for name, runs in cells.items()}


def _over_alpha_block(results: Results) -> Block:
    study = results.study
    metric, shown = list(results.metrics.items())[-1]
    views = []
    for dataset in study.datasets:
        points: dict[str, Any] = {}
        rows = []
        for method in study.methods:
            points[method] = []
            for alpha in study.ascending:
                found = results.estimate(dataset, method, alpha, metric)
                if found is None or alpha is None:
                    continue
                seeds = results.by_seed(dataset, method, alpha, metric)
                points[method].append((alpha, found, seeds))
                by_seed = (seeds.get(seed) for seed in study.seeds)
                rows.append((method, setting(alpha), found.mean, found.interval, *by_seed))
        if rows:
            by_seeds = (f"seed {seed}" for seed in study.seeds)
            names = ("method", "alpha", f"mean {shown}", "± 95%", *by_seeds)
            table = sheet(f"{shown} over alpha, {dataset}", names, rows)
            views.append(View(dataset, over_alpha(points, shown), table))
    text = "Point at a marker for its interval and runs; the table below says the same."
    return Block("over-alpha", f"{shown} over alpha", text, tuple(views), "data set")


def _by_site_block(results: Results) -> Block:
    metric = list(results.metrics.values())[-1]
    views = []
    for dataset in results.study.datasets:
        points = site_estimates(results, dataset)
        rows = [
            (method, site, found.mean, found.interval, *(s.get(n) for n in results.study.seeds))
            for method, of_method in points.items()
            for site, found, s in of_method
        ]
        if rows:
            seeds = (f"seed {seed}" for seed in results.study.seeds)
            names = ("method", "site (its test images)", f"mean {metric}", "± 95%", *seeds)
            table = sheet(f"{metric} by site, {dataset}", names, rows)
            views.append(View(dataset, by_site(points, metric), table))
    text = "Point at a marker for its interval and runs; the table below says the same."
    return Block("by-site", f"{metric} by site", text, tuple(views), "data set")


def _alone_block(rows: Sequence[AloneRow]) -> Block:
    views = []
    for dataset, method in dict.fromkeys((row.dataset, row.method) for row in rows):
        mine = [row for row in rows if (row.dataset, row.method) == (dataset, method)]
        (table,) = alone_tables(mine)
        views.append(View(f"{dataset}, {method}", alone_plot(mine), sheet_of(table)))
    own = " ".join(row.sentence for row in rows if row.site is not None and row.own_images)
    text = f"{own} {alone_note(rows)}"
    return Block("alone", "Better than alone?", text, tuple(views), "method")


def _training_block(results: Results, place: StudyFolder, rates: Rates) -> Block:
    study = results.study
    views = []
    for dataset, alpha in product(study.datasets, reversed(study.ascending)):
        by_method = {}
        for method in study.methods:
            runs = _cell(results, place, rates, (dataset, method, alpha))
            found = [[line["validation_hf"] for line in run.metrics_lines()] for run in runs]
            mean = _mean_curve([curve for curve in found if curve])
            if mean:
                by_method[method] = mean
        if by_method:
            several = len(study.datasets) > 1 or alpha is None
            name = ", ".join([dataset] * several + [skew_name(alpha)] * (alpha is not None))
            across = rounds_axis()
            views.append(curves_view(name, by_method, across, "validation HF"))
    text = "Mean over seeds; a run that stopped early stays where it stopped."
    chosen_by = "alpha" if study.simulated else "data set"
    return Block("training", "Training", text, tuple(views), chosen_by)


def _mean_curve(found: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean over runs per round; a run that stopped early stays where it stopped.

    >>> _mean_curve([[0.2, 0.4], [0.4]])
    [0.30000000000000004, 0.4]
    """
    longest = max(map(len, found), default=0)
    return [fmean(c[min(place, len(c) - 1)] for c in found) for place in range(longest)]


def _settings(
    planned: Sequence[PlannedRun],
    values: Mapping[str, Mapping[str, Any]],
    place: StudyFolder,
    rates: Rates,
    results: Results,
) -> tuple[Sheet, ...]:
    """Return every run with the settings in which runs differ, and the common ones once."""
    configs = {run.name: asdict(run.config) for run in planned}
    names = list(next(iter(configs.values())))
    differing = [n for n in names if len({repr(config[n]) for config in configs.values()}) > 1]
    failures = read_checked_json(place.failures) if place.failures.exists() else {}
    rows = []
    for run in planned:
        found, own = values.get(run.name), configs[run.name]
        ended = f"failed: {failures[run.name]}" if run.name in failures else "open"
        status = "finished" if found else ended
        scores = [found.get(m) if found else None for m in (*results.metrics, "validation_hf")]
        took = [found.get(m) if found else None for m in ("rounds", "cycles", "seconds")]
        settings = [setting(own[n]) for n in differing]
        rows.append((run.name, method_name(run.config), *settings, *scores, *took, status))
    shown = (*results.metrics.values(), "validation HF", "rounds", "cycles", "seconds", "status")
    runs = sheet("Every run", ("run", "method", *differing, *shown), rows)
    study = results.study
    without = {*differing, *["alpha"] * (not study.simulated), *["clients"] * study.own_sites}
    common = {n: v for n, v in next(iter(configs.values())).items() if n not in without}
    sheets = [runs, settings_sheet("Settings of every run", common)]
    if rates:
        found_rates = [
            (dataset, head, name, setting(value))
            for dataset, heads in rates.items()
            for head, rate in heads.items()
            for name, value in rate.items()
        ]
        columns = ("data set", "head", "setting", "value")
        sheets.insert(1, sheet("Learning rates found by the search", columns, found_rates))
    return tuple(sheets)


def _redo(
    results: Results, place: StudyFolder, looked_at: RunFolder | None
) -> tuple[tuple[str, str], ...]:
    study = results.study
    runs = [] if looked_at is None else [looked_at]
    again = study_command(place.study, study.name, bool(study.code()), runs)
    commands = [("The whole study again", again)]
    if looked_at is not None:
        one = run_command(looked_at, bool(study.code()), f"again/{looked_at.path.name}")
        commands.append(("One run again", one))
    return tuple(commands)

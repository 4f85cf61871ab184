"""The plots of a study: scores over alpha or by site, against training alone, over the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import fmean
from typing import Any

from fedgrain.catalogue import rounds_axis
from fedgrain.pages.page import curves_view
from fedgrain.pages.page_parts import Block, View
from fedgrain.pages.page_tables import setting, sheet, sheet_of
from fedgrain.pictures.interactive_plots import over_alpha
from fedgrain.pictures.site_figures import alone_plot, by_site
from fedgrain.report.study_look import finished_runs
from fedgrain.studies.methods import skew_name
from fedgrain.studies.study_folder import Rates, StudyFolder
from fedgrain.tables.alone import AloneRow, alone_note, alone_rows, alone_tables
from fedgrain.tables.collect import Results
from fedgrain.tables.site_tables import site_estimates


def score_blocks(results: Results) -> list[Block]:
    """Return the scores: against training alone if known, then over alpha or by site."""
    rows = alone_rows(results)
    blocks = [_alone_block(rows)] if rows else []
    simulated = results.study.simulated
    return [*blocks, _over_alpha_block(results) if simulated else _by_site_block(results)]


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


def training_block(results: Results, place: StudyFolder, rates: Rates) -> Block:
    """Return validation HF over the rounds, the mean of each method's seeds."""
    study = results.study
    views = []
    for dataset, alpha in product(study.datasets, reversed(study.ascending)):
        by_method = {}
        for method in study.methods:
            runs = finished_runs(results, place, rates, (dataset, method, alpha))
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

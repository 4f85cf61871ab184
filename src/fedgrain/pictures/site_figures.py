"""The figures of a study with real sites: HF by site, and alone against together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedgrain.pictures.interactive_plots import Figure, axes_layout, look_of, plain, spoken_estimate
from fedgrain.pictures.picture_files import new_figure, write_picture
from fedgrain.pictures.study_figures import COLOURS, label_axes, style_of, with_legend
from fedgrain.studies.planned_runs import safe_name
from fedgrain.tables.alone import AloneRow, alone_rows
from fedgrain.tables.collect import Results
from fedgrain.tables.intervals import Estimate
from fedgrain.tables.site_tables import BySeed, site_estimates
from fedgrain.text import shortened

_WIDTH = 0.6  # of the place of a site, all methods together
_CHANGE = "HF together - HF alone, 95% interval over test images"
Points = dict[str, list[tuple[str, Estimate, BySeed]]]


def draw_sites(folder: Path, results: Results) -> list[Path]:
    """Draw the figures of real sites into ``figures/``; none for simulated clients."""
    study, directory = results.study, folder / "figures"
    if study.simulated:
        return []
    paths = []
    for dataset in study.datasets:
        name = "" if len(study.datasets) == 1 else f"-{safe_name(dataset)}"
        points = site_estimates(results, dataset)
        if any(points.values()):
            paths += _draw_by_site(points, dataset, directory / f"hf_by_site{name}")
        rows = [row for row in alone_rows(results) if row.dataset == dataset]
        if rows:
            paths += _draw_alone(rows, directory / f"alone{name}")
    return paths


def _sites(points: Points) -> list[str]:
    return list(dict.fromkeys(site for found in points.values() for site, _, _ in found))


def _draw_by_site(points: Points, dataset: str, path_stem: Path) -> list[Path]:
    """Draw HF per site with intervals over seeds, a mark per method."""
    sites = _sites(points)
    figure = new_figure(max(4.2, 1.4 + 1.1 * len(sites)), 4.0)
    axes = figure.subplots()
    step = _WIDTH / max(1, len(points))
    for number, (method, found) in enumerate(points.items()):
        aside = step * (number - (len(points) - 1) / 2)
        across = [sites.index(site) + aside for site, _, _ in found]
        errors = [value.interval or 0.0 for _, value, _ in found]
        look = {**style_of(number), "linestyle": ""}
        means = [value.mean for _, value, _ in found]
        axes.errorbar(across, means, yerr=errors, capsize=3, label=method, **look)
    axes.set_title(dataset)
    label_axes(axes, "site (its test images)", "HF, mean and 95% interval over seeds")
    names = [shortened(site, 24) for site in sites]
    axes.set_xticks(range(len(sites)), names, rotation=20, ha="right")
    return with_legend(figure, [axes], path_stem)


def _draw_alone(rows: Sequence[AloneRow], path_stem: Path) -> list[Path]:
    """Draw what each site gains, a line per row of the table, the first at the top."""
    figure = new_figure(7.2, 1.4 + 0.34 * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        low, high = row.interval or (row.difference, row.difference)
        colour = COLOURS[0 if row.own_images else 1]
        axes.plot([low, high], [place, place], color=colour, lw=2)
        axes.plot([row.difference], [place], "o" if row.own_images else "s", color=colour)
    axes.axvline(0.0, color="#555555", lw=1)
    names = [f"{shortened(row.name, 40)}: {row.alone:.2f} → {row.together:.2f}" for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    label_axes(axes, _CHANGE, "")
    figure.tight_layout()
    return write_picture(figure, path_stem)


def by_site(points: Points, metric: str) -> Figure:
    """Draw a metric per site, a mark per method, for the page."""
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": plain(method),
            "x": [plain(site) for site, _, _ in found],
            "y": [value.mean for _, value, _ in found],
            "error_y": {
                "type": "data",
                "array": [value.interval or 0.0 for _, value, _ in found],
                "visible": any(value.interval for _, value, _ in found),
            },
            "text": [spoken_estimate(value, seeds) for _, value, seeds in found],
            "hovertemplate": "%{fullData.name}, %{x}<br>%{text}<extra></extra>",
            "marker": look_of(number)["marker"],
        }
        for number, (method, found) in enumerate(points.items())
        if found
    ]
    layout = axes_layout("site (its test images)", f"{metric}, mean and 95% interval", traces)
    layout["xaxis"]["type"] = "category"
    return {"data": traces, "layout": layout}


def alone_plot(rows: Sequence[AloneRow]) -> Figure:
    """Draw what each site gains with its interval, for the page."""
    traces: list[dict[str, Any]] = []
    for own, name in ((True, "own test images"), (False, "everyone's test images")):
        shown = [row for row in rows if row.own_images == own]
        ends = [row.interval or (row.difference, row.difference) for row in shown]
        gains = [row.difference for row in shown]
        error = {
            "type": "data",
            "symmetric": False,
            "array": [high - gain for (_, high), gain in zip(ends, gains, strict=True)],
            "arrayminus": [gain - low for (low, _), gain in zip(ends, gains, strict=True)],
        }
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": gains,
                "y": [plain(row.name) for row in shown],
                "error_x": error,
                "text": [plain(row.sentence) for row in shown],
                "hovertemplate": "%{text}<extra></extra>",
                "marker": look_of(0 if own else 1)["marker"],
            }
        )
    layout = axes_layout(_CHANGE, "", traces)
    layout["yaxis"].update(type="category", autorange="reversed")
    layout["xaxis"].update(zeroline=True, zerolinecolor="#555555")
    layout["height"] = 200 + 30 * len(rows)
    return {"data": traces, "layout": layout}

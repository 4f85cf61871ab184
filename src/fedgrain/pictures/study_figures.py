"""The figures of a study: HF over alpha, training curves, operating curves, accuracy per depth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrain.catalogue import rounds_axis
from fedgrain.pictures.picture_files import new_figure, plain_axes, write_picture
from fedgrain.plugins import Trust
from fedgrain.runs.run_folder import RunFolder
from fedgrain.studies.methods import Skew, parse_method, skew_name
from fedgrain.studies.planned_runs import safe_name
from fedgrain.tables.collect import Results, run_folders

# Okabe and Ito's palette: distinct for every common kind of colour vision, as are the markers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLES = ("-", "--", "-.", ":")
DODGE = 0.008  # of alpha, between two methods
WIDEST = 0.06  # of alpha, all methods together
WIDTH = 2000.0  # pixels at most: a picture for a page, and a small file
_MARGIN = 0.1  # inches, beside and above a legend


def draw_study(folder: str | Path, results: Results) -> list[Path]:
    """Draw what the finished runs allow into ``figures/``; the first is HF over alpha."""
    directory = Path(folder) / "figures"
    if not results.scores:
        return []
    paths: list[Path] = []
    if len(results.study.skews) > 1:
        paths += draw_over_alpha(results, directory / "hf_over_alpha")
    for dataset in results.study.datasets:
        paths += _draw_training(
            folder, results, dataset, _stem(directory, "training", dataset, results)
        )
        stem = _stem(directory, "accuracy_per_depth", dataset, results)
        paths += _draw_depths(folder, results, dataset, stem)
    return paths


def _stem(directory: Path, name: str, dataset: str, results: Results) -> Path:
    """Return where a figure of one data set goes; a single data set needs no name."""
    if len(results.study.datasets) == 1:
        return directory / name
    return directory / f"{name}-{safe_name(dataset)}"


def _title(dataset: str, alpha: Skew) -> str:
    """Return the title of a panel."""
    return dataset if alpha is None else f"{dataset}, {skew_name(alpha)}"


def style_of(number: int) -> dict[str, Any]:
    """Return the look of the method with this number."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": STYLES[number // len(COLOURS) % len(STYLES)],
    }


def draw_over_alpha(results: Results, path_stem: Path) -> list[Path]:
    """Draw HF over alpha with intervals per method, a panel per data set."""
    study = results.study
    figure = new_figure(5.2 * len(study.datasets), 4.0)
    panels = figure.subplots(1, len(study.datasets), squeeze=False)[0]
    for dataset, axes in zip(study.datasets, panels, strict=True):
        points = {
            m: [
                (alpha, value)
                for alpha in study.ascending
                if alpha is not None and (value := results.estimate(dataset, m, alpha, "hf"))
            ]
            for m in study.methods
        }
        finished = [m for m in study.methods if points[m]]
        step = min(DODGE, WIDEST / len(finished)) if finished else 0.0
        for place, method in enumerate(finished):
            aside = step * (place - (len(finished) - 1) / 2)  # intervals side by side
            alphas = [alpha + aside for alpha, _ in points[method]]
            means = [value.mean for _, value in points[method]]
            errors = [value.interval or 0.0 for _, value in points[method]]
            look = style_of(study.methods.index(method))
            axes.errorbar(alphas, means, yerr=errors, capsize=3, label=method, **look)
        axes.set_title(dataset)
        label_axes(axes, "granularity skew alpha", "HF, mean and 95% interval over seeds")
        axes.set_xticks([alpha for alpha in study.ascending if alpha is not None])
    return with_legend(figure, panels, path_stem)


def _panels(columns: Sequence[Any]) -> tuple[Figure, Any]:
    """Return a figure with a panel per column, all on the same y axis."""
    figure = new_figure(4.2 * len(columns), 3.8)
    return figure, figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]


def _draw_training(
    folder: str | Path, results: Results, dataset: str, path_stem: Path
) -> list[Path]:
    """Draw validation HF over rounds and cycles: the mean over seeds, a panel per alpha."""
    study = results.study
    figure, panels = _panels(study.skews)
    for alpha, axes in zip(study.ascending, panels, strict=True):
        for number, method in enumerate(study.methods):
            curves = []
            for place in _finished(folder, results, dataset, method, alpha):
                curves.append([line["validation_hf"] for line in place.metrics_lines()])
            if not curves:
                continue
            look = {**style_of(number), "marker": None}
            look["zorder"] = 2 if parse_method(method).staged else 3  # its start is another curve
            for curve in curves:
                axes.plot(range(1, len(curve) + 1), curve, **{**look, "alpha": 0.3, "lw": 0.8})
            longest = max(map(len, curves))  # one that stopped early stays where it stopped
            held = [curve + curve[-1:] * (longest - len(curve)) for curve in curves]
            axes.plot(range(1, longest + 1), np.mean(held, axis=0), label=method, **look)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_title(_title(dataset, alpha))
        label_axes(axes, rounds_axis(), "validation HF")
    return with_legend(figure, panels, path_stem)


def _draw_depths(folder: str | Path, results: Results, dataset: str, path_stem: Path) -> list[Path]:
    """Draw the accuracy at each depth of H: the mean over seeds, a panel per alpha."""
    study = results.study
    figure, panels = _panels(study.skews)
    for alpha, axes in zip(study.ascending, panels, strict=True):
        for number, method in enumerate(study.methods):
            found = [
                place.read_result()["accuracy_per_depth"]
                for place in _finished(folder, results, dataset, method, alpha)
            ]
            found = [depths for depths in found if depths]
            if not found:
                continue
            deepest = min(map(len, found))
            mean = np.mean([depths[:deepest] for depths in found], axis=0)
            axes.plot(range(1, deepest + 1), mean, label=method, **style_of(number))
            axes.set_xticks(range(1, deepest + 1))
        axes.set_title(_title(dataset, alpha))
        label_axes(axes, "depth in the taxonomy", "accuracy")
    return with_legend(figure, panels, path_stem)


def draw_operating_curves(
    folder: str | Path, results: Results, *, trust_code: Trust = False
) -> list[Path]:
    """Draw HP over HR as the threshold falls, at the largest alpha, per data set.

    For the first finished run of each method: its model predicts the test images again, so this
    takes longer than the other figures, and needs the images.
    """
    from fedgrain.runs.operating_curve import curve_of_run

    alpha, paths = results.study.ascending[-1], list[Path]()
    for dataset in results.study.datasets:
        figure = new_figure(4.8, 4.4)
        axes = figure.subplots()
        for number, method in enumerate(results.study.methods):
            places = _finished(folder, results, dataset, method, alpha)
            if not places:
                continue
            curve, look = curve_of_run(places[0].path, trust_code=trust_code), style_of(number)
            axes.plot(curve.hr, curve.hp, label=method, **{**look, "marker": None})
            hr, hp, _ = curve.at(0.5)
            axes.plot([hr], [hp], **{**look, "linestyle": ""})
        axes.set_title(f"{_title(dataset, alpha)}; markers: P of at least 0.5")
        label_axes(axes, "HR: how far down", "HP: how right")
        if axes.lines:
            stem = _stem(Path(folder) / "figures", "operating_curve", dataset, results)
            paths += with_legend(figure, [axes], stem)
    return paths


def _finished(
    folder: str | Path, results: Results, dataset: str, method: str, alpha: Skew
) -> list[RunFolder]:
    """Return the finished runs of a cell over all seeds."""
    return [
        place
        for seed in results.study.seeds
        for place in run_folders(folder, results.study, dataset, method, alpha, seed)
        if place.result.exists()
    ]


def label_axes(axes: Axes, across: str, up: str) -> None:
    """Name both axes, and give them their plain look."""
    axes.set(xlabel=across, ylabel=up)
    plain_axes(axes)


def with_legend(figure: Figure, panels: Sequence[Axes], path_stem: Path) -> list[Path]:
    """Put one legend to the right of the last panel, as large as it needs; write the picture."""
    entries: dict[str, Any] = {}  # a method may be in one panel alone
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= {
            label: entries.get(label, one) for label, one in zip(labels, handles, strict=True)
        }
    for axes in panels[1:]:
        axes.set_ylabel("")
    legend = figure.legend(
        list(entries.values()),
        [label.replace("+", "\n+") for label in entries],  # a variant's settings on their own lines
        loc="center right",
        frameon=False,
        fontsize=9,
    )
    room = legend.get_window_extent()
    width, height = figure.get_size_inches()
    whole = width + room.width / figure.dpi + _MARGIN
    figure.set_size_inches(whole, max(height, room.height / figure.dpi + 2 * _MARGIN))
    figure.tight_layout(rect=(0, 0, width / whole, 1))
    return write_picture(figure, path_stem, min(150.0, WIDTH / whole))

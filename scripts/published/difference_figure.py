"""Draw how far the methods of a study are from its first one: the picture of an ablation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedgrain.pictures.picture_files import new_figure, plain_axes, write_picture
from fedgrain.tables.collect import Results

ABOVE, BELOW, UNSETTLED = "#009E73", "#D55E00", "#8C8C8C"


def draw_differences(results: Results, names: Mapping[str, str], path_stem: Path) -> list[Path]:
    """Draw the difference in HF with its interval, a line per method and a panel per alpha.

    It is coloured if its interval does not hold 0; with one seed there is no interval.
    """
    study = results.study
    (dataset,), (reference, *others) = study.datasets, study.methods
    alphas = sorted(study.alphas, reverse=True)
    found = {
        (method, alpha): results.difference(dataset, method, reference, alpha, "hf")
        for method in others
        for alpha in alphas
    }
    shown = [m for m in others if any(found[m, alpha] is not None for alpha in alphas)]
    figure = new_figure(9.6, 1.0 + 0.26 * len(shown))
    panels = figure.subplots(1, len(alphas), squeeze=False, sharex=True, sharey=True)[0]
    for alpha, axes in zip(alphas, panels, strict=True):
        axes.axvline(0.0, color="#444444", lw=1.0)
        for place, method in enumerate(shown):
            apart = found[method, alpha]
            if apart is None:
                continue
            settled = apart.interval is not None and abs(apart.mean) > apart.interval
            colour = (ABOVE if apart.mean > 0 else BELOW) if settled else UNSETTLED
            alone = apart.interval is None
            axes.errorbar(
                apart.mean, place, xerr=apart.interval, color=colour, marker="o", ms=5, capsize=3,
                mfc="white" if alone else colour,
            )  # fmt: skip
        plain_axes(axes)
        axes.set_title(f"alpha {alpha:g}", loc="left", fontsize=11)
        axes.set_xlabel("difference in HF")
        axes.xaxis.get_major_locator().set_params(nbins=12 // len(alphas))
    panels[0].set_yticks(range(len(shown)), [names[method] for method in shown], fontsize=9)
    panels[0].invert_yaxis()
    figure.tight_layout()
    return write_picture(figure, path_stem)

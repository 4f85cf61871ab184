"""Draw HF over alpha, the paper's table on the left and the published runs on the right.

python scripts/alpha_figure.py    # reads docs/results/cifar100, writes its figure beside_the_paper
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.axes import Axes

from fedgrain.experiment.results import collect, paper_figures
from fedgrain.report.pictures import new_figure, write_picture

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "cifar100"
DATASET = "cifar100"
COLOURS = {
    "flat-softmax/paper": "#8C8C8C",
    "ps-softmax/paper": "#009E73",
    "cond-sigmoid/paper": "#B5A300",
    "softmax-descendant/paper": "#CC79A7",
    "softmax-margin/paper": "#E69F00",
    "cond-softmax/paper": "#56B4E9",
    "fedbdft/paper": "#0072B2",
    "flat-softmax/projection": "#D55E00",
    "ps-softmax/projection+average_rounds=10+responsibilities=round+rounds=100": "#8B1A1A",
}
NAMES = {
    "ps-softmax/projection+average_rounds=10+responsibilities=round+rounds=100": "ps-softmax/"
    "projection,\naveraged, shared out"
}
Point = tuple[float, float, float]  # alpha, mean, half of the interval


def draw(axes: Axes, title: str, lines: dict[str, list[Point]]) -> None:
    """Draw a line per method; a method with one point is a point."""
    for number, (method, points) in enumerate(lines.items()):
        shift = 0.006 * (number - len(lines) / 2)  # so that points on each other are all seen
        alphas, means, intervals = zip(*sorted(points), strict=True)
        axes.errorbar(
            [alpha + shift for alpha in alphas], means, intervals, color=COLOURS[method],
            marker="o", ms=5, lw=1.8, capsize=2, label=NAMES.get(method, method),
        )  # fmt: skip
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("granularity skew alpha")
    axes.set_xticks([0.0, 0.3, 0.6, 0.9])
    axes.grid(axis="y", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main() -> int:
    """Draw both."""
    results = collect(FOLDER)
    paper: dict[str, list[Point]] = {}
    for (dataset, method, alpha), figures in paper_figures().items():
        if dataset == DATASET:
            paper.setdefault(method, []).append((alpha, *figures["hf"]))
    ours: dict[str, list[Point]] = {}
    for method in COLOURS:
        for alpha in results.study.alphas:
            # Without skew every label is a leaf: projection and the paper's rule are one loss.
            same = method == "flat-softmax/projection" and alpha == 0.0
            name = "flat-softmax/paper" if same else method
            found = results.estimate(DATASET, name, alpha, "hf")
            if found is not None:
                ours.setdefault(method, []).append((alpha, found.mean, found.interval or 0.0))
    figure = new_figure(9.6, 4.0)
    left = figure.add_axes((0.07, 0.14, 0.30, 0.76))
    right = figure.add_axes((0.42, 0.14, 0.30, 0.76), sharey=left)
    draw(left, "the paper (10 seeds)", {name: paper[name] for name in COLOURS if name in paper})
    draw(right, "ours", ours)
    left.set_ylabel("hierarchical F, test images")
    right.legend(loc="center left", bbox_to_anchor=(1.03, 0.5), frameon=False, fontsize=9)
    for path in write_picture(figure, FOLDER / "figures" / "beside_the_paper"):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

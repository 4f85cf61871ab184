"""Draw the figures of the published results that compare more than one study holds.

    python scripts/result_figures.py           # reads and writes docs/results, docs/figures
    python scripts/result_figures.py --check   # fail if one of the tables is out of date

HF over alpha beside the paper's, the main result as a table and as the README's picture, what
labels that are too coarse cost (also as a table), and the table of what was tried and left out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from matplotlib.axes import Axes

from fedgrain.checked_json import read_checked_json
from fedgrain.files import write_text
from fedgrain.pictures.picture_files import new_figure, plain_axes, write_picture
from fedgrain.tables.collect import Results, paper_figures, read_results, run_folders
from published.every_alpha import CEILING, FLAT_RECIPE, RECIPE, every_alpha
from published.every_alpha import WITHOUT_AUGMENTATION as BEST
from published.markdown_table import markdown, out_of_date

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "results"
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
    BEST: "#8B1A1A",
}
OF_THE_RECIPE = {FLAT_RECIPE: "#009E73", CEILING: "#444444"}
FINDING = {  # method: what the README calls it
    "flat-softmax/paper": "flat softmax, coarse labels dropped",
    "cond-softmax/paper": "conditional softmax",
    "fedbdft/paper": "FedBDFT, the paper's method",
    BEST: "ps-softmax, projection",
    FLAT_RECIPE: "projection, augmentation, schedule",
    CEILING: "bound: pooled, all classes known",
}
APART = 0.016  # between two names in the README's picture, in HF
LAZY_SHARES = (0.0, 0.1, 0.3, 0.5)
LAZY_LINES = {  # name: method, what a lazy share adds to it, colour
    "projection": ("flat-softmax/projection", "+lazy_labels={share:g}", "#D55E00"),
    "projection, matching laziness": (
        "flat-softmax/projection", "+lazy_labels={share:g}+laziness={share:g}", "#E69F00",
    ),
    "marginal": ("flat-softmax/marginal", "+lazy_labels={share:g}", "#0072B2"),
}  # fmt: skip
TRIED = {  # what it is: its run
    "plain": "cifar100-lazy/runs/cifar100-flat-softmax-projection-alpha0.9-seed47",
    "a margin of 1 against the leaves outside the label's set": "tried/cifar100-flat-softmax-"
    "projection-set_margin-1.0-alpha0.9-seed47",
    "a prior correction per client: shares scaled until the classes a label stands for are equally "
    "frequent": "tried/cifar100-flat-softmax-projection-responsibilities-balanced-alpha0.9-seed47",
}
TRIED_ROUNDS = 20
Point = tuple[float, float, float]  # alpha, mean, half of the interval
Lazy = dict[str, dict[float, tuple[float, float]]]  # by line and share: HF, leaf accuracy


def our_points(results: Results, method: str) -> list[Point]:
    """Return a method's HF at the alphas at which any of its runs is finished."""
    points: list[Point] = []
    for alpha in sorted(results.study.alphas):
        # Without skew every label is a leaf: projection and the paper's rule are one loss.
        same = method == "flat-softmax/projection" and alpha == 0.0
        name = "flat-softmax/paper" if same else method
        found = results.estimate(DATASET, name, alpha, "hf")
        if found is not None:
            points.append((alpha, found.mean, found.interval or 0.0))
    return points


def draw_beside_the_paper(results: Results) -> list[Path]:
    """Draw HF over alpha, the paper's table on the left and the published runs on the right."""
    paper: dict[str, list[Point]] = {}
    for (dataset, method, alpha), figures in paper_figures().items():
        if dataset == DATASET:
            paper.setdefault(method, []).append((alpha, *figures["hf"]))
    figure = new_figure(9.6, 4.0)
    left = figure.add_axes((0.07, 0.14, 0.30, 0.76))
    right = figure.add_axes((0.42, 0.14, 0.30, 0.76), sharey=left)
    lines_over_alpha(left, {method: paper[method] for method in COLOURS if method in paper})
    lines_over_alpha(right, {method: our_points(results, method) for method in COLOURS})
    left.set_title("the paper (10 seeds)", loc="left", fontsize=11)
    right.set_title("ours", loc="left", fontsize=11)
    left.set_ylabel("hierarchical F, test images")
    right.legend(loc="center left", bbox_to_anchor=(1.03, 0.5), frameon=False, fontsize=9)
    return write_picture(figure, RESULTS / DATASET / "figures" / "beside_the_paper")


def lines_over_alpha(axes: Axes, lines: dict[str, list[Point]]) -> None:
    """Draw a line per method; a method with one point is a point."""
    for number, (method, points) in enumerate(lines.items()):
        shift = 0.006 * (number - len(lines) / 2)  # so that points on each other are all seen
        alphas, means, intervals = zip(*sorted(points), strict=True)
        name = "ps-softmax/projection,\naveraged, shared out" if method == BEST else method
        axes.errorbar(
            [alpha + shift for alpha in alphas], means, intervals, color=COLOURS[method],
            marker="o", ms=5, lw=1.8, capsize=2, label=name,
        )  # fmt: skip
    plain_axes(axes)
    axes.set_xlabel("granularity skew alpha")
    axes.set_xticks([0.0, 0.3, 0.6, 0.9])


def draw_finding(results: Results, with_recipe: Results) -> list[Path]:
    """Draw the README's picture: a line per method from no skew to the largest."""
    low, high = min(results.study.alphas), max(results.study.alphas)
    colours = COLOURS | OF_THE_RECIPE
    figure = new_figure(7.6, 3.9)
    axes = figure.add_axes((0.11, 0.17, 0.42, 0.71))
    ends: list[tuple[float, str, str]] = []
    for method, name in FINDING.items():
        points = our_points(with_recipe if method in OF_THE_RECIPE else results, method)
        alphas, means, _ = zip(*points, strict=True)
        bound = {"ls": "--"} if method == CEILING else {"marker": "o"}
        axes.plot(alphas, means, color=colours[method], lw=2.2, **bound)
        ends.append((means[-1], f"{means[-1]:.3f}  {name}", colours[method]))
    height = 0.0
    for value, text, colour in sorted(ends):
        height = max(value, height + APART)
        axes.annotate(text, (high, value), (high + 0.04, height), color=colour, va="center",
                      annotation_clip=False, fontsize=9.5)  # fmt: skip
    plain_axes(axes)
    axes.set_xticks(
        [low, high], ["every site can name\nevery class", "each site can name\n1 class in 10"]
    )
    axes.set_xlim(-0.06, 0.96)
    axes.set_ylabel("hierarchical F on the test images")
    axes.set_title("CIFAR-100, ten sites, one model", loc="left", fontsize=11)
    return write_picture(figure, DOCS / "figures" / "finding")


def lazy_scores(folder: Path) -> Lazy:
    """Return what each line scores at each share of labels too coarse, as far as it was run."""
    study, columns = read_results(folder).study, Lazy()
    for name, (method, ending, _) in LAZY_LINES.items():
        columns[name] = {}
        for share in LAZY_SHARES:
            variant = method + (ending.format(share=share) if share else "")
            (run,) = run_folders(
                folder, study, study.datasets[0], variant, study.alphas[0], study.seeds[0]
            )
            if run.result.exists():
                values = read_checked_json(run.result)
                columns[name][share] = (values["hf"], values["accuracy"])
    return columns


def draw_lazy(columns: Lazy, path_stem: Path) -> list[Path]:
    """Draw HF over the share of labels that are too coarse."""
    figure = new_figure(6.4, 3.4)
    axes = figure.add_axes((0.11, 0.15, 0.52, 0.77))
    for name, (_, _, colour) in LAZY_LINES.items():
        shares = [100 * share for share in columns[name]]
        values = [hf for hf, _ in columns[name].values()]
        axes.plot(shares, values, color=colour, marker="o", lw=2.2)
        axes.annotate(name, (shares[-1], values[-1]), (shares[-1] + 2, values[-1]), color=colour,
                      va="center", annotation_clip=False, fontsize=9.5)  # fmt: skip
    plain_axes(axes)
    axes.set_xlabel("labels written one level too coarse, % of those at known classes")
    axes.set_ylabel("hierarchical F")
    axes.set_xticks([100 * share for share in LAZY_SHARES])
    return write_picture(figure, path_stem)


def lazy_table(columns: Lazy) -> str:
    """Return the same as a table."""
    rows = [
        [f"{100 * share:.0f} %"]
        + [
            f"{found[share][0]:.3f} ({found[share][1]:.3f})" if share in found else "not run"
            for found in columns.values()
        ]
        for share in LAZY_SHARES
    ]
    return markdown(["labels too coarse", *columns], rows)


def tried_table() -> str:
    """Return what each trial reached, beside what the option that was kept had by then."""
    rows = []
    for name, run in TRIED.items():
        result = read_checked_json(RESULTS / run / "result.json")
        scores = (result["validation_hf"], result["hf"], result["accuracy"])
        rows.append([name, *(f"{score:.3f}" for score in scores)])
    # The kept option ran longer: its best validation HF by then is known, its test scores are not.
    (kept,) = run_folders(
        RESULTS / DATASET,
        read_results(RESULTS / DATASET).study,
        DATASET,
        "flat-softmax/projection+responsibilities=round",
        0.9,
        47,
    )
    best = max(line["validation_hf"] for line in kept.metrics_lines()[:TRIED_ROUNDS])
    rows.append(["`--responsibilities round` alone", f"{best:.3f}", "", ""])
    names = [f"after {TRIED_ROUNDS} rounds", "validation HF", "test HF", "leaf accuracy"]
    return markdown(names, rows)


def main() -> int:
    """Draw and write, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, only compare tables")
    args = parser.parse_args()
    lazy = RESULTS / "cifar100-lazy"
    columns = lazy_scores(lazy)
    tables = {
        lazy / "by_share.md": lazy_table(columns),
        RESULTS / "tried/tried.md": tried_table(),
        RESULTS / DATASET / "every_alpha.md": every_alpha(RESULTS),
    }
    if args.check:
        return out_of_date(tables)
    for path, text in tables.items():
        write_text(path, text)
    results = read_results(RESULTS / DATASET)
    pictures = draw_beside_the_paper(results)
    pictures += draw_finding(results, read_results(RESULTS / RECIPE))
    for path in pictures + draw_lazy(columns, lazy / "figures" / "by_share"):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

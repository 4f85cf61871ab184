"""The table of the learned labeller: what each way to read labels reaches where labels are faulty.

    python scripts/labeller_table.py studies/cifar100-labeller-* [--picture docs/figures/labeller]
    python scripts/labeller_table.py --kept docs/results/cifar100-wrong.json

Each folder is a study with one share of lazy labels or one kind of wrong labels; alphas and faults
are the rows, methods the columns. A cell has HF and leaf accuracy, with 95% intervals from three
seeds on. The last columns say how far the learned labeller is from the best of its row. A file of
kept scores is read; what the studies have is added to it, and the table has it all. Without studies
it stays as it is.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path

from fedgrain.checked_json import read_checked_json
from fedgrain.files import write_text
from fedgrain.pictures.picture_files import new_figure, plain_axes, write_picture
from fedgrain.tables.collect import read_results, run_folders
from fedgrain.tables.intervals import Estimate, estimate
from published.markdown_table import markdown

NAMES = {  # what a method's settings are called here; the same in every method
    "flat-softmax/": "",
    "+responsibilities=round": "",
    "+validation=clients+infer_knowledge=true": ", clients validate",
    "+infer_knowledge=true": ", inferred",
    "+labeller=fedmt": ": FedMT",
    "+labeller=siblings": ": siblings",
    "+label_smoothing=0.1": ", label smoothing",
    "+gce=0.7": ", GCE",
}
LEARNED = "learned"
COLOURS = ("#8C8C8C", "#0072B2", "#D55E00", "#E69F00", "#8B1A1A", "#009E73")
Cell = tuple[Estimate, Estimate]  # HF, leaf accuracy
Rows = dict[str, dict[str, Cell]]  # alpha and fault; method
Scores = dict[str, dict[str, dict[str, list[float]]]]  # the same; then seed: HF, leaf accuracy


def short(method: str) -> str:
    """Return the name of a method without what all have.

    >>> short("flat-softmax/projection+responsibilities=round+infer_knowledge=true")
    'projection, inferred'
    """
    for long, name in NAMES.items():
        method = method.replace(long, name)
    return method


def scores(folder: Path) -> Scores:
    """Return the scores of the finished runs of a study."""
    study, rows = read_results(folder).study, Scores()
    settings = study.settings
    fault = settings.get("wrong_labels") or f"{float(settings.get('lazy_labels') or 0):g}"
    fault = f"mixed {fault}" if settings.get("mixed_clients") else fault
    for alpha, method, seed in product(study.alphas, study.methods, study.seeds):
        for run in run_folders(folder, study, study.datasets[0], method, alpha, seed):
            if run.result.exists():
                found = read_checked_json(run.result)
                cell = rows.setdefault(f"{alpha:g}; {fault}", {}).setdefault(short(method), {})
                cell[str(seed)] = [found["hf"], found["accuracy"]]
    return rows


def cells(found: Scores) -> Rows:
    """Return means with intervals."""
    return {
        row: {
            method: (
                estimate([hf for hf, _ in seeds.values()]),
                estimate([a for _, a in seeds.values()]),
            )
            for method, seeds in methods.items()
        }
        for row, methods in found.items()
    }


def by_fault(item: tuple[str, object]) -> tuple[str, float]:
    """Return what rows are sorted by: the fault, then alpha downwards."""
    alpha, _, fault = item[0].partition("; ")
    return fault, -float(alpha)


def merge(into: Scores, more: Scores) -> None:
    """Add scores; of the same run the newer ones count."""
    for row, methods in more.items():
        for method, seeds in methods.items():
            into.setdefault(row, {}).setdefault(method, {}).update(seeds)


def table(rows: Rows) -> str:
    """Return the cells as Markdown, the best HF of a row bold."""
    methods = list(dict.fromkeys(method for row in rows.values() for method in row))
    lines = []
    for name, row in rows.items():
        best = max(hf.mean for hf, _ in row.values())
        line = [name]
        for method in methods:
            text = ", ".join(map(spoken, row[method])) if method in row else "not run"
            bold = method in row and f"{row[method][0].mean:.3f}" == f"{best:.3f}"
            line.append(f"**{text}**" if bold else text)
        gaps = ["", ""]
        if LEARNED in row:
            tops = [max(cell[side].mean for cell in row.values()) for side in (0, 1)]
            gaps = [f"{tops[side] - row[LEARNED][side].mean:.3f}" for side in (0, 1)]
        lines.append([*line, *gaps])
    return markdown(["alpha; fault", *methods, "HF below best", "accuracy below best"], lines)


def spoken(found: Estimate) -> str:
    """Return a mean, and its interval if there are enough seeds."""
    return f"{found.mean:.3f}" + (f" ± {found.interval:.3f}" if found.interval else "")


def draw(rows: Rows, path_stem: Path) -> None:
    """Draw HF of each method in each row."""
    methods = list(dict.fromkeys(method for row in rows.values() for method in row))
    figure = new_figure(7.6, 3.8)
    axes = figure.add_axes((0.11, 0.25, 0.60, 0.70))
    for number, method in enumerate(methods):
        places = [place for place, row in enumerate(rows.values()) if method in row]
        found = [row[method][0] for row in rows.values() if method in row]
        axes.errorbar(places, [one.mean for one in found], [one.interval or 0.0 for one in found],
                      color=COLOURS[number % len(COLOURS)], marker="osD^v*"[number % 6], lw=0,
                      elinewidth=1.2, ms=7 if method != LEARNED else 10, label=method)  # fmt: skip
    plain_axes(axes)
    axes.set_xticks(range(len(rows)), [name.replace(" ", "\n") for name in rows])
    axes.set_xlabel("alpha; share of labels too coarse, or what is wrong")
    axes.set_ylabel("hierarchical F")
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=9)
    write_picture(figure, path_stem)


def main() -> None:
    """Print the table, and draw it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="*", type=Path)
    parser.add_argument("--kept", type=Path, help="JSON file of scores; studies are added")
    parser.add_argument("--picture", type=Path, help="also draw it: path without its ending")
    args = parser.parse_args()
    found: Scores = {}
    if args.kept and args.kept.exists():
        found = json.loads(args.kept.read_text())
    for folder in args.studies:
        merge(found, scores(folder))
    found = dict(sorted(found.items(), key=by_fault))
    if args.kept and args.studies:
        write_text(args.kept, json.dumps(found, indent=1) + "\n")
    rows = cells(found)
    print(table(rows))
    if args.picture:
        draw(rows, args.picture)


if __name__ == "__main__":
    main()

"""Draw what labels that are too coarse cost each supervision, and write the same as a table.

python scripts/lazy_figure.py    # reads and writes docs/results/cifar100-lazy, the published study
"""

from __future__ import annotations

import sys
from pathlib import Path

from fedgrain.experiment.folder import read_json
from fedgrain.experiment.results import collect, run_folders
from fedgrain.files import write_text
from fedgrain.report.pictures import new_figure, write_picture

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "cifar100-lazy"
SHARES = (0.0, 0.1, 0.3, 0.5)
LINES = {  # name: method, what a lazy share adds to it, colour
    "projection": ("flat-softmax/projection", "+lazy_labels={share:g}", "#D55E00"),
    "projection, matching laziness": (
        "flat-softmax/projection", "+lazy_labels={share:g}+laziness={share:g}", "#E69F00",
    ),
    "marginal": ("flat-softmax/marginal", "+lazy_labels={share:g}", "#0072B2"),
}  # fmt: skip


def scores(method: str, ending: str) -> dict[float, tuple[float, float]]:
    """Return HF and leaf accuracy by the share of labels too coarse, as far as they were run."""
    study, found = collect(FOLDER).study, {}
    for share in SHARES:
        name = method + (ending.format(share=share) if share else "")
        (folder,) = run_folders(FOLDER, study.datasets[0], name, study.alphas[0], study.seeds[0])
        if folder.result.exists():
            values = read_json(folder.result)
            found[share] = (values["hf"], values["accuracy"])
    return found


def main() -> int:
    """Draw and write."""
    figure = new_figure(6.4, 3.4)
    axes = figure.add_axes((0.11, 0.15, 0.52, 0.77))
    columns = {name: scores(method, ending) for name, (method, ending, _) in LINES.items()}
    for name, (_, _, colour) in LINES.items():
        points = sorted(columns[name].items())
        shares, values = [100 * share for share, _ in points], [hf for _, (hf, _) in points]
        axes.plot(shares, values, color=colour, marker="o", lw=2.2)
        axes.annotate(name, (shares[-1], values[-1]), (shares[-1] + 2, values[-1]), color=colour,
                      va="center", annotation_clip=False, fontsize=9.5)  # fmt: skip
    axes.set_xlabel("labels written one level too coarse, % of those at known classes")
    axes.set_ylabel("hierarchical F")
    axes.set_xticks([100 * share for share in SHARES])
    axes.grid(axis="y", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    lines = ["| labels too coarse | " + " | ".join(columns) + " |", "|" + "---|" * (len(LINES) + 1)]
    for share in SHARES:
        cells = [
            f"{found[share][0]:.3f} ({found[share][1]:.3f})" if share in found else "not run"
            for found in columns.values()
        ]
        lines.append(f"| {100 * share:.0f} % | " + " | ".join(cells) + " |")
    write_text(FOLDER / "by_share.md", "\n".join(lines) + "\n")
    for path in write_picture(figure, FOLDER / "figures" / "by_share"):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Draw docs/figures/finding.svg and .png: what granularity skew costs each method on CIFAR-100.

python scripts/finding_figure.py    # reads docs/results/cifar100, the published study
"""

from __future__ import annotations

import sys
from pathlib import Path

from fedgrain.experiment.results import collect
from fedgrain.report.pictures import new_figure, write_picture

ROOT = Path(__file__).parents[1]
BEST = "ps-softmax/projection+average_rounds=10+responsibilities=round+rounds=100"
SHOWN = {  # method: what it is called, colour
    "flat-softmax/paper": ("flat softmax, coarse labels dropped", "#8C8C8C"),
    "cond-softmax/paper": ("conditional softmax", "#56B4E9"),
    "fedbdft/paper": ("FedBDFT, the paper's method", "#0072B2"),
    "flat-softmax/projection": ("flat softmax, projection", "#E69F00"),
    BEST: ("ps-softmax, projection, our best", "#D55E00"),
}
LOW, HIGH = 0.0, 0.9
APART = 0.016  # between two names, in HF


def main() -> int:
    """Draw a line per method from no skew to the largest."""
    results = collect(ROOT / "docs" / "results" / "cifar100")
    figure = new_figure(7.6, 3.9)
    axes = figure.add_axes((0.11, 0.17, 0.42, 0.71))
    ends: list[tuple[float, str, str]] = []
    for method, (name, colour) in SHOWN.items():
        # Without skew every label is a leaf: projection and the paper's rule are one loss.
        low_method = "flat-softmax/paper" if method == "flat-softmax/projection" else method
        low = results.estimate("cifar100", low_method, LOW, "hf")
        high = results.estimate("cifar100", method, HIGH, "hf")
        if high is None:
            print(f"no finished run of {method} at alpha {HIGH}", file=sys.stderr)
            return 1
        points = [(LOW, low.mean)] if low else []  # not run yet: its end alone is shown
        points.append((HIGH, high.mean))
        axes.plot(*zip(*points, strict=True), color=colour, marker="o", lw=2.2)
        ends.append((high.mean, f"{high.mean:.3f}  {name}", colour))
    height = 0.0
    for value, text, colour in sorted(ends):
        height = max(value, height + APART)
        axes.annotate(text, (HIGH, value), (HIGH + 0.04, height), color=colour, va="center",
                      annotation_clip=False, fontsize=9.5)  # fmt: skip
    axes.set_xticks(
        [LOW, HIGH], ["every site can name\nevery class", "each site can name\n1 class in 10"]
    )
    axes.set_xlim(-0.06, 0.96)
    axes.set_ylabel("hierarchical F on the test images")
    axes.grid(axis="y", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title("CIFAR-100, ten sites, one model", loc="left", fontsize=11)
    for path in write_picture(figure, ROOT / "docs" / "figures" / "finding"):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Draw docs/figures/review-order.svg; print the text of docs/refine.md, section Which label next.

    python scripts/review_figure.py REVIEW_ORDER.json

The file is what scripts/review_order.py writes. Seeds that are not finished are left out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

from fedgrain.pictures.picture_files import new_figure, write_picture
from fedgrain.tables.intervals import estimate
from review_order import ORDERS, SHARES, complete

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
LOOKS = {"expected gain": ("#0072B2", "o", "-"), "random": ("#D55E00", "s", "--")}
Values = dict[str, list[list[float]]]  # by order: [shares, seeds]


def draw(before: list[float], after: Values) -> None:
    """Draw HF over the share reviewed: a line per order, a point per seed."""
    figure = new_figure(6.4, 3.8)
    axes = figure.add_axes((0.13, 0.16, 0.84, 0.8))
    shares = [100 * share for share in (0.0, *SHARES)]
    for order, values in after.items():
        colour, marker, line = LOOKS[order]
        rows = [before, *values]
        axes.plot(
            shares, [mean(row) for row in rows], line, color=colour, marker=marker, label=order
        )
        for share, row in zip(shares, rows, strict=True):
            axes.plot([share] * len(row), row, marker, color=colour, markersize=3, alpha=0.5)
    axes.set_xlabel("coarse labels that an expert made full, %")
    axes.set_ylabel("HF after training again")
    axes.legend(title="order of review", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    write_picture(figure, FIGURES / "review-order")


def text(coarse: list[int], before: list[float], after: Values) -> str:
    """Return the section: the mean of each order, their difference with its 95% interval."""
    lines = [
        f"![HF over the share reviewed](figures/review-order.svg)\n\n{len(before)} seeds, "
        f"{min(coarse):,} to {max(coarse):,} coarse labels; "
        f"nothing reviewed: HF {mean(before):.4f}.\n",
        "| reviewed | expected gain | random | difference | per seed |",
        "|---|---|---|---|---|",
    ]
    wins = 0
    for place, share in enumerate(SHARES):
        gain, chance = (after[order][place] for order in ORDERS)
        apart = [one - other for one, other in zip(gain, chance, strict=True)]
        wins += sum(one > 0 for one in apart)
        interval = estimate(apart).interval
        spread = "" if interval is None else f" ± {interval:.4f}"
        each = ", ".join(f"{one:+.4f}" for one in apart)
        lines.append(
            f"| {share:.0%} | {mean(gain):.4f} | {mean(chance):.4f} "
            f"| {mean(apart):+.4f}{spread} | {each} |"
        )
    pairs = len(SHARES) * len(before)
    lines.append(f"\nThe order by expected gain is better in {wins} of {pairs} pairs of runs.")
    return "\n".join(lines)


def main() -> None:
    """Read the file, draw and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    found: dict[str, Any] = json.loads(parser.parse_args().file.read_text("utf-8"))
    done = [own for own in found.values() if complete(own)]
    if not done:
        parser.error("no seed is finished")
    before = [own["none"] for own in done]
    after = {order: [[own[order][str(s)] for own in done] for s in SHARES] for order in ORDERS}
    draw(before, after)
    print(text([own["coarse"] for own in done], before, after))


if __name__ == "__main__":
    main()

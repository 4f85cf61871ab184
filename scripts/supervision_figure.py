"""Draw docs/figures/which-supervision.svg: which supervision to choose.

python scripts/supervision_figure.py
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from fedgrain.pictures.picture_files import new_figure, write_picture

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
WIDTH, HEIGHT = 3.5, 0.95
QUESTIONS = {  # name: place, text
    "paper?": ((0.0, 3.0), "Do you compare\nwith the paper?"),
    "wrong?": ((0.0, 1.5), "May labels be wrong,\nnot only coarse?"),
    "told?": ((0.0, 0.0), "Do you know what\neach labeller knows?"),
    "careful?": ((0.0, -1.5), "Does it always write the\nmost specific name it knows?"),
}
ANSWERS = {
    "paper": ((5.2, 3.0), "paper", "as the paper reads labels"),
    "siblings": ((5.2, 1.5), "learned --labeller siblings", "compare it with learned on your data"),
    "learned": ((5.2, 0.0), "learned", "knowledge and laziness are learned"),
    "projection": ((5.2, -1.5), "projection", "with --knowledge FILE.json"),
}
ARROWS = (
    ("paper?", "paper", "yes"), ("paper?", "wrong?", "no"), ("wrong?", "siblings", "yes"),
    ("wrong?", "told?", "no"), ("told?", "learned", "no"), ("told?", "careful?", "yes"),
    ("careful?", "projection", "yes"), ("careful?", "learned", "no, or\nnot sure"),
)  # fmt: skip


def main() -> None:
    """Draw and write the picture."""
    figure = new_figure(9.6, 5.6)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    places = {name: place for name, (place, *_) in {**QUESTIONS, **ANSWERS}.items()}
    for name, ((x, y), *texts) in {**QUESTIONS, **ANSWERS}.items():
        asked = name in QUESTIONS
        face, edge = ("#ffffff", "#767676") if asked else ("#eef4fa", "#0072B2")
        axes.add_patch(
            FancyBboxPatch((x, y), WIDTH, HEIGHT, "round,pad=0.04", fc=face, ec=edge, lw=1.4)
        )
        middle = x + WIDTH / 2
        if asked:
            axes.text(middle, y + HEIGHT / 2, texts[0], ha="center", va="center", fontsize=12)
        else:
            axes.text(middle, y + 0.58, texts[0], ha="center", fontsize=12.5, weight="bold")
            axes.text(middle, y + 0.2, texts[1], ha="center", fontsize=10.5, color="#333333")
    for start, end, word in ARROWS:
        (x0, y0), (x1, y1) = places[start], places[end]
        if x0 == x1:
            a, b = (x0 + WIDTH / 2, y0 - 0.06), (x1 + WIDTH / 2, y1 + HEIGHT + 0.06)
            text = (a[0] + 0.12, (a[1] + b[1]) / 2 - 0.07)
        else:
            a, b = (x0 + WIDTH + 0.06, y0 + HEIGHT / 2), (x1 - 0.06, y1 + HEIGHT / 2)
            lift = 0.2 if y1 > y0 else 0.0
            a = (a[0], a[1] + lift)
            text = (a[0] + (0.95 if lift else 0.12), a[1] + 0.1)
        axes.add_patch(FancyArrowPatch(a, b, arrowstyle="-|>", mutation_scale=13, color="#444444"))
        axes.text(*text, word, fontsize=11, color="#444444")
    axes.set_xlim(-0.2, 8.9)
    axes.set_ylim(-1.75, 4.2)
    write_picture(figure, FIGURES / "which-supervision")


if __name__ == "__main__":
    main()

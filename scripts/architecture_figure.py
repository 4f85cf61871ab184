"""Draw docs/figures/architecture.svg: the rooms, in the order of scripts/import_graph.py.

python scripts/architecture_figure.py
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from fedgrain.pictures.picture_files import new_figure, write_picture
from import_graph import ROOMS

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
HOLDS = {
    "taxonomy": "the tree",
    "knowledge": "who knows what",
    "images": "arrays on disk",
    "data": "data sets",
    "folders": "own images",
    "importers": "other formats in",
    "readers": "one per format",
    "nets": "features",
    "heads": "loss, P(node)",
    "scoring": "rules, metrics",
    "calibration": "how sure",
    "trunks": "pretrained",
    "federated": "algorithms",
    "engines": "where clients train",
    "models": "trained models",
    "config": "settings",
    "preparation": "a federation",
    "runs": "one run",
    "exports": "models out",
    "studies": "many runs",
    "tables": "what runs say",
    "benchmark": "a frozen protocol",
    "policy": "what a site allows",
    "records": "what left a site",
    "messages": "Flower: messages",
    "handover": "Flower: in a site",
    "deployment": "Flower: rounds",
    "sites": "Flower: sites",
    "membership": "Flower: who takes part",
    "oversight": "Flower: is it well?",
    "pictures": "drawn",
    "pages": "blocks, tables",
    "sections": "looks at a model",
    "report": "pages about runs",
    "refinement": "finer labels",
    "terminal": "shared by commands",
    "flower_commands": "fedgrain flower",
    "cli": "fedgrain ...",
}
GIVES = {  # what flows from a room to the next one, where there is a word for it
    "taxonomy": "nodes",
    "knowledge": "labels",
    "readers": "batches",
    "nets": "logits",
    "heads": "P(node)",
    "trunks": "features",
    "federated": "tasks",
    "engines": "weights",
    "preparation": "federation",
    "exports": "results",
    "messages": "updates",
    "oversight": "run folders",
}
COLUMNS, WIDTH, HEIGHT = 5, 2.3, 1.0
ROWS = -(-len(ROOMS) // COLUMNS)


def place(room: str) -> tuple[float, float]:
    """Return the lower left corner: rows go left to right, then right to left."""
    row, column = divmod(ROOMS.index(room), COLUMNS)
    column = column if row % 2 == 0 else COLUMNS - 1 - column
    return column * (WIDTH + 0.9), -row * (HEIGHT + 0.8)


def main() -> None:
    """Draw and write the picture."""
    figure = new_figure(15.0, 7.2)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    for room in ROOMS:
        x, y = place(room)
        box = FancyBboxPatch((x, y), WIDTH, HEIGHT, "round,pad=0.03", fc="#eef4fa", ec="#0072B2")
        axes.add_patch(box)
        axes.text(x + WIDTH / 2, y + 0.6, f"{room}/", ha="center", fontsize=14, weight="bold")
        axes.text(x + WIDTH / 2, y + 0.22, HOLDS[room], ha="center", fontsize=11, color="#333333")
    for start, end in pairwise(ROOMS):
        (x0, y0), (x1, y1) = place(start), place(end)
        if y0 == y1:
            right = x1 > x0
            a = (x0 + (WIDTH + 0.06 if right else -0.06), y0 + HEIGHT / 2)
            b = (x1 + (-0.06 if right else WIDTH + 0.06), y1 + HEIGHT / 2)
            text = ((a[0] + b[0]) / 2, a[1] + 0.12)
        else:
            a, b = (x0 + WIDTH / 2, y0 - 0.06), (x1 + WIDTH / 2, y1 + HEIGHT + 0.06)
            text = (a[0] + 0.45, (a[1] + b[1]) / 2 - 0.05)
        axes.add_patch(FancyArrowPatch(a, b, arrowstyle="-|>", mutation_scale=14, color="#555555"))
        axes.text(*text, GIVES.get(start, ""), ha="center", fontsize=9, color="#555555")
    axes.text(
        0, -ROWS * (HEIGHT + 0.8) + 0.35,
        "A module imports only from its own room and from rooms before it. Ground floor, for all: "
        "errors, files, randomness, arithmetic, catalogue.",
        fontsize=11, color="#333333",
    )  # fmt: skip
    axes.set_xlim(-0.2, COLUMNS * (WIDTH + 0.9) - 0.6)
    axes.set_ylim(-ROWS * (HEIGHT + 0.8), HEIGHT + 0.2)
    for path in write_picture(figure, FIGURES / "architecture"):
        print(f"wrote {path}")


if __name__ == "__main__":
    main()

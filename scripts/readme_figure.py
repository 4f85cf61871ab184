"""Draw docs/figures/problem.svg and .png: one image, three sites, three labels.

python scripts/readme_figure.py
"""

from __future__ import annotations

from pathlib import Path

from fedgrain.pictures.picture_files import new_figure, write_picture

PLACES = {  # name -> (x, y)
    "animal": (1.5, 3),
    "bird": (0.9, 2),
    "cat": (2.3, 2),
    "owl": (0.2, 1),
    "kite": (1.4, 1),
    "black kite": (0.75, 0),
    "Brahminy kite": (2.15, 0),
}
EDGES = [
    ("animal", "bird"),
    ("animal", "cat"),
    ("bird", "owl"),
    ("bird", "kite"),
    ("kite", "black kite"),
    ("kite", "Brahminy kite"),
]
SITES = {  # who -> (what it knows, what it writes)
    "a volunteer": ({"animal", "bird", "cat"}, "bird"),
    "a museum": ({"animal", "bird", "cat", "owl", "kite"}, "kite"),
    "an expert": (set(PLACES), "Brahminy kite"),
}


def main() -> None:
    """Draw a tree per site; what the site does not know is grey, what it writes is framed."""
    figure = new_figure(10.5, 3.4)
    for number, (site, (known, label)) in enumerate(SITES.items(), start=1):
        axes = figure.add_subplot(1, 3, number)
        axes.set_title(f"{site} writes “{label}”", fontsize=11)
        for parent, child in EDGES:
            colour = "#444444" if child in known else "#cccccc"
            xs, ys = zip(PLACES[parent], PLACES[child], strict=True)
            axes.plot(xs, ys, color=colour, linewidth=1.2, zorder=1)
        for name, (x, y) in PLACES.items():
            frame = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none"}
            if name == label:
                frame |= {"facecolor": "#fff0c2", "edgecolor": "#d62728"}
            colour = "black" if name in known else "#b5b5b5"
            axes.text(x, y, name, ha="center", va="center", fontsize=10, color=colour, bbox=frame)
        axes.set_xlim(-0.2, 2.9)
        axes.set_ylim(-0.5, 3.4)
        axes.set_axis_off()
    write_picture(figure, Path(__file__).resolve().parents[1] / "docs" / "figures" / "problem")


if __name__ == "__main__":
    main()

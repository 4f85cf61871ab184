"""A tree drawn from its root outwards, a ring per depth, in the paper's colours.

Grey is unknown, red the root, blue an inner class, black a leaf.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.patches import Circle
from matplotlib.path import Path as Curve
from numpy.typing import NDArray

from fedgrain.pictures.drawn_part import drawn_part
from fedgrain.pictures.picture_files import POINTS_PER_INCH, new_figure, write_picture
from fedgrain.pictures.radial_layout import RadialLayout, on_paper
from fedgrain.taxonomy.tree import Taxonomy

BoolArray = NDArray[np.bool_]

_RED, _BLUE, _BLACK, GREY = "#d62728", "#1f77b4", "#000000", "#c6c6c6"
_KNOWN_EDGE, _UNKNOWN_EDGE, _RING, _UNKNOWN_NAME = "#6e6e6e", "#dadada", "#e6e6e6", "#9c9c9c"


def draw_radial_tree(
    taxonomy: Taxonomy,
    path_stem: str | Path,
    known: BoolArray | None = None,
    title: str | None = None,
) -> list[Path]:
    """Write the tree as SVG and PNG; ``known`` [nodes] greys out what a client does not know.

    Of a tree with more than 1,200 leaves only the upper levels are drawn, and the title says so.
    """
    part = drawn_part(taxonomy)
    coloured = np.ones(len(taxonomy), dtype=np.bool_) if known is None else np.asarray(known)
    coloured = coloured[part.nodes]
    if part.caption:
        title = f"{title}: {part.caption}" if title else part.caption
    layout = RadialLayout(part.taxonomy)
    half = layout.size / 2
    title_size = min(30.0, 9 + layout.size / 120)
    room_for_title = 2 * title_size if title else 0.0
    figure = new_figure(
        layout.size / POINTS_PER_INCH, (layout.size + room_for_title) / POINTS_PER_INCH
    )
    axes = figure.add_axes((0, 0, 1, layout.size / (layout.size + room_for_title)))
    axes.set_axis_off()
    axes.set(xlim=(-half, half), ylim=(-half, half), aspect="equal")
    for radius in layout.ring_radii[1:]:
        axes.add_patch(Circle((0, 0), radius, fill=False, edgecolor=_RING, linewidth=0.8, zorder=0))
    _draw_edges(axes, layout, coloured)
    _draw_nodes(axes, layout, coloured, part.is_cut)
    _draw_leaf_names(axes, layout, coloured)
    _draw_inner_names(axes, layout, coloured)
    if title:
        axes.text(
            0,
            half + title_size / 2,
            title,
            fontsize=title_size,
            ha="center",
            va="bottom",
            parse_math=False,
        )
    return write_picture(figure, path_stem, 150 if layout.size < 1500 else 110)


def _draw_edges(axes: Axes, layout: RadialLayout, known: BoolArray) -> None:
    """Draw each edge as a curve that leaves its parent outwards and enters the child straight."""
    child = np.arange(1, len(layout.taxonomy))
    parent = layout.taxonomy.parents[1:]
    middle = (layout.radius[parent] + layout.radius[child]) / 2
    corners = np.stack(
        [
            layout.places[parent],
            on_paper(layout.angle[parent], np.where(parent == 0, 0.0, middle)),
            on_paper(layout.angle[child], middle),
            layout.places[child],
        ],
        axis=1,
    )  # [edges, 4, 2]
    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    for is_known, colour in ((False, _UNKNOWN_EDGE), (True, _KNOWN_EDGE)):
        curves = PathCollection(
            [Curve(corner, codes) for corner in corners[known[1:] == is_known]],
            facecolors="none",
            edgecolors=colour,
            linewidths=layout.line_width,
            zorder=1 + is_known,
        )
        axes.add_collection(curves, autolim=False)


def _draw_nodes(axes: Axes, layout: RadialLayout, known: BoolArray, is_cut: BoolArray) -> None:
    taxonomy = layout.taxonomy
    colours = np.full(len(taxonomy), _BLUE, dtype=object)
    diameters = np.full(len(taxonomy), layout.inner_diameter)
    colours[taxonomy.leaves] = _BLACK
    colours[is_cut] = _BLUE  # inner classes, though nothing is drawn below them
    diameters[taxonomy.leaves] = layout.leaf_diameter
    colours[0] = _RED
    diameters[0] = 2 * layout.inner_diameter
    colours[~known] = GREY
    order = np.argsort(known, kind="stable")  # the known ones on top
    x, y = layout.places[order].T
    axes.scatter(x, y, s=diameters[order] ** 2, c=list(colours[order]), linewidths=0, zorder=3)


def _draw_leaf_names(axes: Axes, layout: RadialLayout, known: BoolArray) -> None:
    """Write every leaf's name outwards, with a dotted line where it starts further out."""
    leaves = layout.taxonomy.leaves
    starts = on_paper(layout.angle[leaves], layout.name_radius)  # [leaves, 2]
    far = layout.name_radius > layout.radius[leaves] + 2 * layout.font_size
    ends = on_paper(layout.angle[leaves], layout.name_radius - 0.4 * layout.font_size)
    leaders = np.stack([layout.places[leaves], ends], axis=1)[far]  # [leaders, 2, 2]
    axes.add_collection(
        LineCollection(list(leaders), colors=GREY, linewidths=0.5, linestyles=":", zorder=0),
        autolim=False,
    )
    for leaf, (x, y) in zip(leaves, starts, strict=True):
        left = np.cos(layout.angle[leaf]) < 0
        axes.text(
            x,
            y,
            layout.names[leaf],
            parse_math=False,
            rotation=np.degrees(layout.angle[leaf]) + (180 if left else 0),
            rotation_mode="anchor",
            horizontalalignment="right" if left else "left",
            verticalalignment="center",
            fontsize=layout.font_size,
            color=_BLACK if known[leaf] else _UNKNOWN_NAME,
        )


def _draw_inner_names(axes: Axes, layout: RadialLayout, known: BoolArray) -> None:
    backdrop = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4}
    for node, (x, y) in layout.inner_name_places().items():
        colour = _RED if node == 0 else _BLUE
        axes.text(
            x,
            y,
            layout.names[node],
            parse_math=False,
            horizontalalignment="center",
            verticalalignment="center",
            fontsize=layout.inner_font_size,
            color=colour if known[node] else _UNKNOWN_NAME,
            bbox=backdrop,
            zorder=4,
        )

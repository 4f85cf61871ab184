"""Every picture is written as SVG and PNG, whole or not at all, with the same bytes each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedgrain.files import written_whole

POINTS_PER_INCH = 72.0

# Names stay text in the SVG (searchable, small); ids come from the content, not from a clock.
_SVG_STYLE: Any = {"svg.hashsalt": "fedgrain", "svg.fonttype": "none"}
_UNDATED = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure (size in inches) that is not registered with pyplot."""
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def plain_axes(axes: Axes) -> None:
    """Give axes a pale grid behind what is drawn, and no frame above and to the right."""
    axes.grid(color="#eeeeee")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def write_picture(figure: Figure, path_stem: str | Path, dots_per_inch: float = 150) -> list[Path]:
    """Write ``path_stem``.svg and ``path_stem``.png; return both paths."""
    stem = Path(path_stem)
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in _UNDATED]
    for path, (kind, metadata) in zip(paths, _UNDATED.items(), strict=True):
        with written_whole(path) as aside, rc_context(_SVG_STYLE):
            figure.savefig(aside, format=kind, dpi=dots_per_inch, metadata=metadata)
    return paths

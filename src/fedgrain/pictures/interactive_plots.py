"""The interactive plots, as the objects plotly's script draws.

Colours are Okabe and Ito's and cividis, distinct for every common kind of colour vision; markers
and dashes repeat it. Names go through :func:`plain`: plotly reads tags in a text as markup.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.pictures.study_figures import COLOURS
from fedgrain.tables.intervals import Estimate
from fedgrain.taxonomy import Taxonomy

Figure = dict[str, Any]
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
_DASHES = ("solid", "dash", "dashdot", "dot")
_LEVELS = 5  # rings of the sunburst at a time, at most; a click goes deeper
_MOST_SECTORS = 400  # at a time, beyond the first ring
MOST_POINTS = 120  # of a curve
_WHOLE_ROUNDS = 12  # up to this many rounds, each has a tick
_TWO_IN_A_ROW = 50  # letters of the longest name of a legend with two columns


def plain(text: str) -> str:
    """Return a text that plotly shows as it is."""
    return html.escape(text, quote=False)


def over_alpha(
    estimates: Mapping[str, Sequence[tuple[float, Estimate, Mapping[int, float]]]], metric: str
) -> Figure:
    """Draw a metric over alpha per method: (alpha, mean and interval, value by seed)."""
    traces = []
    for number, (method, points) in enumerate(estimates.items()):
        if not points:
            continue
        intervals = [found.interval or 0.0 for _, found, _ in points]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plain(method),
                "x": [alpha for alpha, _, _ in points],
                "y": [found.mean for _, found, _ in points],
                "error_y": {"type": "data", "array": intervals, "visible": any(intervals)},
                "text": [spoken_estimate(found, seeds) for _, found, seeds in points],
                "hovertemplate": "%{fullData.name}, alpha %{x}<br>%{text}<extra></extra>",
                **look_of(number),
            }
        )
    layout = axes_layout("granularity skew alpha", f"{metric}, mean and 95% interval", traces)
    layout["xaxis"]["tickvals"] = sorted({x for trace in traces for x in trace["x"]})
    return {"data": traces, "layout": layout}


def spoken_estimate(found: Estimate, seeds: Mapping[int, float]) -> str:
    """Return mean and interval, and the value of every seed."""
    shown = f"{found.mean:.4f}" + (f" ± {found.interval:.4f}" if found.interval else "")
    runs = [f"seed {seed}: {value:.4f}" for seed, value in seeds.items()]
    lines = ["; ".join(runs[start : start + 4]) for start in range(0, len(runs), 4)]
    return "<br>".join([shown, *lines])


def curves(by_name: Mapping[str, Sequence[float | None]], across: str, up: str) -> Figure:
    """Draw one line per name over rounds, thinned to a bounded number of points."""
    traces = []
    for number, (name, values) in enumerate(by_name.items()):
        if not values:
            continue
        shown = thinned(len(values))
        look = look_of(number)
        look.pop("marker")
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(values) == 1 else "lines",
                "name": plain(name),
                "x": [place + 1 for place in shown],
                "y": [values[place] for place in shown],
                "hovertemplate": "%{fullData.name}, %{x}: %{y:.4f}<extra></extra>",
                **look,
            }
        )
    layout = axes_layout(across, up, traces)
    if max(map(len, by_name.values()), default=0) <= _WHOLE_ROUNDS:
        layout["xaxis"]["dtick"] = 1  # there is no round 1.5
    return {"data": traces, "layout": layout}


def thinned(count: int, most: int = MOST_POINTS) -> list[int]:
    """Return at most ``most`` places of a list of this length, first and last among them."""
    if count <= most:
        return list(range(count))
    return [int(place) for place in np.linspace(0, count - 1, most).round()]


def tree_trace(taxonomy: Taxonomy) -> dict[str, Any]:
    """Return the data of a sunburst; the width of a sector is its number of leaves."""
    return {
        "type": "sunburst",
        "ids": [plain(node) for node in taxonomy.ids],
        "labels": [plain(name) for name in taxonomy.names],
        "parents": ["", *(plain(taxonomy.ids[p]) for p in taxonomy.parents[1:].tolist())],
        "values": taxonomy.leaf_counts.tolist(),
        "branchvalues": "total",
        "maxdepth": _rings(taxonomy),
        "sort": False,
        "insidetextorientation": "radial",
    }


def _rings(taxonomy: Taxonomy) -> int:
    """Return how many levels of a tree are shown at a time so that sectors stay visible."""
    shown = np.cumsum([len(level) for level in taxonomy.levels])
    return int(np.clip((shown <= _MOST_SECTORS).sum(), 2, _LEVELS))


def sunburst(
    taxonomy: Taxonomy,
    accuracy: NDArray[np.float64],
    tested: NDArray[np.int64],
    knowing: NDArray[np.int64],
    clients: int,
) -> Figure:
    """Draw the taxonomy; ``colourings`` holds what the page can switch between."""
    shown = [None if value != value else round(value, 4) for value in accuracy.tolist()]
    first: dict[str, Any] = {"name": "accuracy", "colors": shown, "cmin": 0, "cmax": 1}
    counts = {"colors": knowing.tolist(), "cmin": 0, "cmax": clients}
    colourings = [first, {"name": "clients that know it", **counts}]
    texts = [
        ("not tested" if share != share else f"{100 * share:.0f}% of {tests} found")
        + f"; known to {knowers} of {clients} clients"
        for share, tests, knowers in zip(accuracy, tested, knowing, strict=True)
    ]
    return {**_coloured(taxonomy, texts, first), "colourings": colourings}


def knowledge_sunburst(taxonomy: Taxonomy, knows: NDArray[np.float64]) -> Figure:
    """Draw how likely one labeller knows each node."""
    colouring = {
        "name": "seems to know it",
        "colors": knows.round(3).tolist(),
        "cmin": 0,
        "cmax": 1,
    }
    texts = [f"knows it: {100 * share:.0f}%" for share in knows.tolist()]
    return _coloured(taxonomy, texts, colouring)


def _coloured(taxonomy: Taxonomy, texts: list[str], colouring: Mapping[str, Any]) -> Figure:
    """Draw the tree with a text and a colour for each node."""
    trace = {
        **tree_trace(taxonomy),
        "text": texts,
        "textinfo": "label",
        "hovertemplate": "%{label}<br>%{text}<extra></extra>",
        "marker": {
            **{name: colouring[name] for name in ("colors", "cmin", "cmax")},
            "colorscale": "Cividis",
            "showscale": True,
            "colorbar": {
                "title": {"text": colouring["name"], "side": "top"},
                "orientation": "h",
                "thickness": 14,
                "len": 0.6,
                "y": -0.02,
                "yanchor": "top",
            },
            "line": {"color": "#ffffff", "width": 1},
        },
    }
    layout = {"margin": {"t": 10, "l": 10, "r": 10, "b": 80}, "height": 640, **fonts()}
    return {"data": [trace], "layout": layout}


def look_of(number: int) -> dict[str, Any]:
    """Return the line and the marker of the method with this number."""
    colour = COLOURS[number % len(COLOURS)]
    dash = _DASHES[number // len(COLOURS) % len(_DASHES)]
    return {
        "line": {"color": colour, "dash": dash, "width": 2},
        "marker": {"color": colour, "symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 9},
    }


def axes_layout(across: str, up: str, traces: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the layout of a plot, with room for the whole legend under the axis."""
    names = {trace["name"] for trace in traces}
    columns = 2 if max(map(len, names), default=0) <= _TWO_IN_A_ROW else 1
    room = 22 * math.ceil(len(names) / columns)
    axis = {"gridcolor": "#e6e6e6", "zeroline": False, "automargin": True}
    return {
        "xaxis": {**axis, "title": {"text": across}},
        "yaxis": {**axis, "title": {"text": up}},
        "hovermode": "closest",
        "height": 380 + room,
        "margin": {"t": 20, "r": 20},
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "maxheight": room + 20,
        },
        **fonts(),
    }


def fonts() -> dict[str, Any]:
    """Return the letters and the ground of every plot."""
    return {
        "font": {"family": "system-ui, sans-serif", "size": 14, "color": "#1a1a1a"},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
    }

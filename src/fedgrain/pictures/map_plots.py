"""Maps (clients or groups against groups) and reliability curves, as plotly's script draws them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.pictures.interactive_plots import Figure, axes_layout, look_of, plain
from fedgrain.scoring.calibration import Reliability
from fedgrain.taxonomy import Taxonomy
from fedgrain.text import shortened

_LONGEST_NAME = 22  # letters beside a map
_ROW = 24  # points of a name
_WITH_NUMBERS = 25  # names of a map whose cells have room for a percentage


def unique_names(taxonomy: Taxonomy, nodes: Sequence[int]) -> list[str]:
    """Return the names of nodes, with the id where a name repeats (ImageNet has two cranes)."""
    names = [taxonomy.names[node] for node in nodes]
    often = Counter(names)
    return [
        name if often[name] == 1 else f"{name} ({taxonomy.ids[node]})"
        for node, name in zip(nodes, names, strict=True)
    ]


def knowledge_map(
    taxonomy: Taxonomy,
    names: Sequence[str],
    label_depths: NDArray[np.int64],
    groups: Sequence[int],
) -> Figure:
    """Draw how far down each client labels classes [clients, leaves]: 1 is the class itself.

    A column is one of the ``groups``: a class, or an inner node with the mean of its classes.
    """
    share = label_depths / np.maximum(taxonomy.depth[taxonomy.leaves], 1)
    first, end = taxonomy.leaf_ranges
    columns = [share[:, first[node] : end[node]].mean(axis=1) for node in groups]
    figure = _map(names, unique_names(taxonomy, groups), np.stack(columns, axis=1))
    about = "%{y} labels %{x} at %{z:.0%} of its depth<extra></extra>"
    figure["data"][0]["hovertemplate"] = about
    return figure


def confusion_map(names: Sequence[str], counts: NDArray[np.int64]) -> Figure:
    """Draw the share of the images of each group [is, taken for] that are taken for another."""
    total = counts.sum(axis=1, keepdims=True)
    share = np.where(counts > 0, counts / np.maximum(total, 1), np.nan)  # what never is, is white
    figure = _map(names, names, share)
    trace = figure["data"][0]
    if len(names) <= _WITH_NUMBERS:
        trace["texttemplate"] = "%{z:.0%}"
    trace["customdata"] = counts.tolist()
    trace["hovertemplate"] = (
        "is %{y}, taken for %{x}:<br>%{customdata} images, %{z:.0%} of the row<extra></extra>"
    )
    figure["layout"]["xaxis"]["title"] = {"text": "taken for"}
    figure["layout"]["yaxis"]["title"] = {"text": "is"}
    return figure


def _map(down: Sequence[str], across: Sequence[str], share: NDArray[np.float64]) -> Figure:
    """Draw shares [down, across] with every name."""
    values = [[None if v != v else round(v, 3) for v in row] for row in share.tolist()]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": [plain(name) for name in across],
        "y": [plain(name) for name in down],
        "z": values,
        "zmin": 0,
        "zmax": 1,
        "colorscale": "Cividis",
        "colorbar": {"tickformat": ".0%"},
        "hoverongaps": False,
    }
    layout = axes_layout("", "")
    for axis, places, names in (("xaxis", trace["x"], across), ("yaxis", trace["y"], down)):
        layout[axis].update(
            type="category",
            tickvals=places,
            ticktext=[plain(shortened(name, _LONGEST_NAME)) for name in names],
            showgrid=False,
        )
    layout["yaxis"]["autorange"] = "reversed"
    layout["xaxis"]["tickangle"] = -60 if len(across) > 6 else 0
    layout["height"] = 240 + _ROW * len(down)
    return {"data": [trace], "layout": layout}


def reliability_plot(by_name: Mapping[str, Reliability]) -> Figure:
    """Draw the share of right answers over their probability, a curve for each name."""
    diagonal = {
        "type": "scatter",
        "mode": "lines",
        "name": "as it should be",
        "x": [0, 1],
        "y": [0, 1],
        "line": {"color": "#767676", "dash": "dot", "width": 1},
        "hoverinfo": "skip",
    }
    traces: list[dict[str, Any]] = [diagonal]
    for number, (name, found) in enumerate(by_name.items()):
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plain(name),
                "x": found.said.round(4).tolist(),
                "y": found.right.round(4).tolist(),
                "text": [f"{count:,} images" for count in found.count.tolist()],
                "hovertemplate": "%{fullData.name}: says %{x:.0%}, right %{y:.0%}, %{text}"
                "<extra></extra>",
                **look_of(number),
            }
        )
    layout = axes_layout("probability it gives", "share that is right", traces)
    for axis in ("xaxis", "yaxis"):
        layout[axis].update(range=[-0.02, 1.02], tickformat=".0%")
    return {"data": traces, "layout": layout}

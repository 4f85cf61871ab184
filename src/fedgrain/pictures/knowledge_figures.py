"""The paper's figures of knowledge over alpha, and Algorithm 1 against naive generators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fedgrain.knowledge import Knowledge
from fedgrain.knowledge.statistics import mean_similarity
from fedgrain.pictures.picture_files import new_figure, plain_axes, write_picture

FloatArray = NDArray[np.float64]

COLOURS = ("#1f77b4", "#d62728", "#2a9d4a", "#9467bd", "#8c564b")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_SHOWN_CLIENTS = 20  # with more clients, only the mean and the range are drawn


def alpha_grid(clients: int, step: float = 0.1) -> list[float]:
    """Return the alphas of the figures: multiples of the step, and the largest possible."""
    largest = 1 - 1 / clients
    steps = np.arange(0, largest - step / 4, step)
    return [round(float(alpha), 9) for alpha in (*steps, largest)]


def draw_properties(over_alpha: Iterable[tuple[float, Knowledge]], directory: Path) -> list[Path]:
    """Write known_classes and mean_similarity per client over alpha (the paper's two figures)."""
    alphas, nodes, similarity = [], [], []
    for alpha, knowledge in over_alpha:
        alphas.append(alpha)
        nodes.append(knowledge.known.sum(axis=1))
        similarity.append(mean_similarity(knowledge))
    return [
        *_draw_property(
            alphas, np.array(nodes), "known classes (with the root)", directory / "known_classes"
        ),
        *_draw_property(
            alphas,
            np.array(similarity),
            "mean similarity of known classes",
            directory / "mean_similarity",
        ),
    ]


def _draw_property(
    alphas: Sequence[float], values: FloatArray, title: str, path_stem: Path
) -> list[Path]:
    """Draw one property [alphas, clients]: every client, and their mean."""
    figure = new_figure(5.2, 3.8)
    axes = figure.add_axes((0.14, 0.14, 0.83, 0.82))
    clients = values.shape[1]
    if clients <= _SHOWN_CLIENTS:
        axes.plot(alphas, values, ".", color=COLOURS[0], alpha=0.45, markeredgewidth=0)
        axes.plot([], [], ".", color=COLOURS[0], alpha=0.45, label="a client")
    else:
        low, high = values.min(axis=1), values.max(axis=1)
        axes.fill_between(alphas, low, high, color=COLOURS[0], alpha=0.2, label="range of clients")
    axes.plot(alphas, values.mean(axis=1), color=COLOURS[1], label=f"mean of {clients} clients")
    _finish(axes, title)
    return write_picture(figure, path_stem)


def draw_comparison(
    alphas: Sequence[float],
    known_nodes: Mapping[str, FloatArray],
    filled: Mapping[str, FloatArray],
    path_stem: Path,
) -> list[Path]:
    """Draw Algorithm 1 beside the naive generators.

    Left, the mean number of known nodes over alpha per generator; right, per setting, the share of
    unlabeled nodes that Algorithm 1 makes known: 0 is one naive generator, 1 is the other.
    """
    figure = new_figure(10.0, 4.0)
    left = figure.add_axes((0.07, 0.13, 0.41, 0.8))
    right = figure.add_axes((0.56, 0.13, 0.41, 0.8))
    for axes, curves in ((left, known_nodes), (right, filled)):
        for number, (name, values) in enumerate(curves.items()):
            axes.plot(alphas, values, ls=STYLES[number], color=COLOURS[number], label=name)
    _finish(left, "known classes, mean of the clients")
    _finish(right, "share of unlabeled made known")
    return write_picture(figure, path_stem)


def _finish(axes: Axes, title: str) -> None:
    axes.set(xlabel="granularity skew alpha", ylabel=title)
    plain_axes(axes)
    axes.legend(frameon=False)

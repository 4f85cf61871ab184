"""A temperature from sums over a fixed grid: sites send sums of losses, never samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgrain.errors import PredictionError
from fedgrain.heads import Head

TEMPERATURES: tuple[float, ...] = tuple((2.0 ** (np.arange(-16, 17) / 4)).tolist())  # 1/16 to 16
FEWEST = 20  # images; with fewer the model stays as it is
_FLAT = 1e-9  # a mean loss that varies by less says nothing, such as that of labels at the root
_AT_ONCE = 2048

Temperature = float | tuple[float, ...]  # of the leaves, or of each depth from the first down
Sums = NDArray[np.float64]  # of the loss at each temperature, then the number of images


def fit_temperature(logits: Tensor, labels: Tensor | NDArray[np.integer], head: Head) -> float:
    """Return the T for which :meth:`Head.tempered_log_probs` fits validation labels best.

    It is what a run does with its validation images; 1 with fewer than ``FEWEST`` of them.
    """
    head.check(logits)
    head.check_labels(labels)
    if not len(labels):
        raise PredictionError("a temperature needs validation data, but there is none")
    nodes = labels.cpu().numpy() if isinstance(labels, Tensor) else labels
    sums = temperature_sums(head, logits.detach(), np.asarray(nodes, np.int64))
    return best_temperature([sums])


def temperature_sums(head: Head, logits: Tensor, labels: NDArray[np.int64]) -> Sums:
    """Return the sum of the losses at each temperature, and the number of images.

    The loss is -log P(label). A coarse label is merely a true ancestor, so it is used as it is.
    """
    sums = np.zeros(len(TEMPERATURES) + 1)
    sums[-1] = len(labels)
    places, first, end = head.sums.leaves, *head.taxonomy.leaf_ranges
    number = torch.arange(len(places))
    with torch.no_grad():
        for start in range(0, len(labels), _AT_ONCE):
            own = labels[start : start + _AT_ONCE]
            table = head.node_log_probs(logits[start : start + _AT_ONCE])
            leaves = table.index_select(1, places).double()
            low, high = (
                torch.from_numpy(side[own].astype(np.int64))[:, None] for side in (first, end)
            )
            below = (number >= low) & (number < high)  # [images, leaves]
            for place, temperature in enumerate(TEMPERATURES):
                scaled = leaves / temperature
                inside = scaled.masked_fill(~below, -torch.inf).logsumexp(1)
                sums[place] += float((scaled.logsumexp(1) - inside).sum())
    return sums


def sums_by_depth(head: Head, logits: Tensor, labels: NDArray[np.int64]) -> Sums:
    """Return the same [depths, temperatures + 1] of each step down to the label, among siblings.

    -log P(label) is the sum over its steps, so every depth has a best temperature of its own.
    """
    path = head.sums.path[torch.from_numpy(labels)]  # [images, depths], 0 below the label
    sums = np.zeros((path.shape[1], len(TEMPERATURES) + 1))
    sums[:, -1] = (path > 0).sum(0).numpy()
    with torch.no_grad():
        for start in range(0, len(labels), _AT_ONCE):
            own = path[start : start + _AT_ONCE]
            steps = head.log_steps(logits[start : start + _AT_ONCE]).double()
            for place, temperature in enumerate(TEMPERATURES):
                among = head.sums.sibling_log_softmax(steps / temperature)
                taken = among.gather(1, (own - 1).clamp_min(0)).masked_fill(own == 0, 0.0)
                sums[:, place] -= taken.sum(0).numpy()
    return sums


def best_by_depth(parts: Sequence[Sums], whole: Sequence[Sums]) -> tuple[float, ...] | None:
    """Return a temperature per depth if that measures better than one for all; None if not.

    It must fit better by more than one unit of log likelihood for each number that it adds
    (Akaike's criterion).
    """
    by_depth = np.sum(np.stack(list(parts)), axis=0)
    chosen = tuple(best_temperature([row]) for row in by_depth)
    one, loss_of_one = best_temperature(whole), np.sum(np.stack(list(whole)), axis=0)
    grid = np.log2(TEMPERATURES)
    loss = sum(
        np.interp(np.log2(t), grid, row[:-1]) for t, row in zip(chosen, by_depth, strict=True)
    )
    better = float(np.interp(np.log2(one), grid, loss_of_one[:-1]) - loss)
    return chosen if better > len(chosen) - 1 else None


def best_temperature(parts: Sequence[Sums]) -> float:
    """Return the temperature with the least loss: the best of the grid, refined by a parabola.

    It is 1 where there are too few images, or where their labels do not tell temperatures apart.
    """
    sums = np.sum(np.stack(list(parts)), axis=0) if parts else np.zeros(len(TEMPERATURES) + 1)
    losses, images = sums[:-1], sums[-1]
    if images < FEWEST or not np.isfinite(losses).all():
        return 1.0
    if losses.max() - losses.min() < _FLAT * images:
        return 1.0
    best = int(losses.argmin())
    if best in (0, len(losses) - 1):
        return TEMPERATURES[best]
    left, middle, right = losses[best - 1 : best + 2]
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend > 0 else 0.0
    return float(2.0 ** (np.log2(TEMPERATURES[best]) + shift / 4))

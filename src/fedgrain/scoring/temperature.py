"""Temperature: one number that makes probabilities fit validation labels (method, section 7)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fedgrain.errors import PredictionError
from fedgrain.heads import Head


def fit_temperature(logits: Tensor, labels: Tensor, head: Head) -> float:
    """Return the T for which ``logits / T`` fit the validation labels best (mean -log P(label)).

    cond-sigmoid takes its own loss: without negatives the best P would be 1 everywhere. The search
    is a grid over T from 1/64 to 64, then golden section around its best.
    """
    if not len(labels):
        raise PredictionError("a temperature needs validation data, but there is none")
    head.check(logits)
    head.check_labels(labels)
    exact = logits.detach().double()
    losses = head.marginal_losses if "marginal" in head.supervisions else head.sample_losses

    def cost(log_temperature: float) -> float:
        with torch.no_grad():
            return float(losses(exact / math.exp(log_temperature), labels).mean())

    reach, step = math.log(64.0), math.log(2.0) / 2
    grid = [-reach + step * i for i in range(round(2 * reach / step) + 1)]
    best = min(grid, key=cost)
    return math.exp(_golden_section(cost, best - step, best + step))


def _golden_section(cost: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of a function with one valley between ``low`` and ``high``."""
    ratio = (math.sqrt(5.0) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    cost_left, cost_right = cost(left), cost(right)
    while high - low > 1e-6:
        if cost_left <= cost_right:
            high, right, cost_right = right, left, cost_left
            left = high - ratio * (high - low)
            cost_left = cost(left)
        else:
            low, left, cost_left = left, right, cost_right
            right = low + ratio * (high - low)
            cost_right = cost(right)
    return (low + high) / 2

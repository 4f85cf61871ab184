"""95% confidence intervals: over seeds by Student's t, over test images by the bootstrap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from fedgrain.randomness import numpy_generator

_FEWEST_SEEDS = 3  # with fewer the values themselves are reported, no interval (section 10)


@dataclass(frozen=True)
class Estimate:
    """Values over seeds: their mean, and half the width of its 95% interval if there are enough."""

    values: tuple[float, ...]
    mean: float
    interval: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean and interval of values over seeds.

    >>> result = estimate([0.5, 0.6, 0.7])
    >>> round(result.mean, 6), round(result.interval, 6)
    (0.6, 0.248414)
    >>> estimate([0.5, 0.6]).interval is None
    True
    """
    count = len(values)
    interval = None
    if count >= _FEWEST_SEEDS:
        interval = t_quantile(0.975, count - 1) * stdev(values) / math.sqrt(count)
    return Estimate(tuple(values), fmean(values), interval)


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """Return the t below which a Student t variable stays with this probability, above 0.5.

    By bisection on the tail, P(|T| > t) = I_x(freedom/2, 1/2) with x = freedom / (freedom + t^2).
    """
    if not 0.5 < probability < 1 or freedom < 1:
        raise ValueError(f"no quantile {probability} with {freedom} degrees of freedom")
    tails = 2 * (1 - probability)

    def beyond(t: float) -> float:
        return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))

    low, high = 0.0, 1.0
    while beyond(high) > tails:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if beyond(middle) > tails else (low, middle)
    return (low + high) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction.

    The fraction (DLMF 8.17.22, Lentz's method) converges fast for x < (a + 1) / (a + b + 2); the
    other side follows from I_x(a, b) = 1 - I_{1-x}(b, a).
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta) / a
    upper, lower = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = lower
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            lower = 1 / (1 + term * lower)
            upper = 1 + term / upper
            value *= lower * upper
        if abs(lower * upper - 1) < 1e-16:
            break
    return front * value


def resampled_interval(
    differences: NDArray[np.float64], resamples: int = 2000
) -> tuple[float, float] | None:
    """Return the 95% bootstrap interval of the mean of differences [seeds, images].

    Images are drawn again with replacement, the same ones for every seed, and with three seeds or
    more the seeds too. None with fewer than two images.

    >>> low, high = resampled_interval(np.array([[0.0, 0.5, 0.5, 1.0] * 25]))
    >>> round(low, 2), round(high, 2)
    (0.43, 0.57)
    """
    seeds, images = differences.shape
    if images < 2:
        return None
    kinds, counts = np.unique(differences, axis=1, return_counts=True)  # equal images are one draw
    random = numpy_generator(0, "bootstrap")
    means = np.empty(resamples)
    for number in range(resamples):
        drawn = random.multinomial(images, counts / images) / images
        of_seeds = np.full(seeds, 1 / seeds)
        if seeds >= _FEWEST_SEEDS:
            of_seeds = random.multinomial(seeds, of_seeds) / seeds
        means[number] = of_seeds @ kinds @ drawn
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)

"""One sentence on what a study shows, made from its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from fedgrain.studies.methods import is_bound, parse_method, skew_name
from fedgrain.tables.alone import alone_headline, alone_rows
from fedgrain.tables.collect import Results
from fedgrain.tables.intervals import estimate

_FEW = {1: "one seed", 2: "two seeds"}  # no interval


def sentence(results: Results) -> str:
    """Return which method is best, at the largest skew if one is simulated, and what skew costs.

    Methods are compared over the same seeds: those with fewer or others are only counted.
    """
    rows = alone_rows(results)
    if rows:
        return alone_headline(rows)
    study, metric = results.study, list(results.metrics)[-1]
    dataset, low, high = study.datasets[0], study.ascending[0], study.ascending[-1]
    place = f"On {dataset}" + ("" if high is None else f" at {skew_name(high)}")
    finished = {
        method: dict(scores)
        for method in study.methods
        if not is_bound(method) and (scores := results.by_seed(dataset, method, high, metric))
    }
    if not finished:
        return f"{place} no run is finished yet."
    seeds = max(map(frozenset, finished.values()), key=len)
    means = {m: fmean(scores.values()) for m, scores in finished.items() if seeds == scores.keys()}
    order = sorted(means, key=means.__getitem__, reverse=True)
    best = order[0]
    name, count = results.metrics[metric], _FEW.get(len(seeds), f"{len(seeds)} seeds")
    fewer = len(finished) - len(order)
    if fewer and len(order) == 1:
        return (
            f"{place}, {best} has {name} {means[best]:.3f} over {count}; no other method has the "
            "same, so it is compared with none."
        )
    place += f", of the {len(order)} methods with {count}" * (fewer > 0)
    text = f"{place}, {best} has the best {name}, {means[best]:.3f}"
    if len(order) > 1:
        second, last = order[1], order[-1]
        text += f", {_above(finished[best], finished[second])} the next, {second}"
        if last != second:
            text += f", and {means[best] - means[last]:.3f} above {last}"
    if low is not None and high is not None and low < high:
        lost = {m: _lost(results, m, low, high, metric) for m in order}
        known = {method: value for method, value in lost.items() if value is not None}
        most = max(known, key=known.__getitem__, default=best)
        if most != best and best in known:
            text += (
                f"; from alpha {low:g} to {high:g} it {_changes(known[best])}, "
                f"{most} {_changes(known[most])}"
            )
    if high is not None and low == high:  # what no skew would give is in no other column
        for method in study.methods:
            found = results.estimate(dataset, method, high, metric)
            if parse_method(method).bound == "oracle" and found is not None:
                text += f"; {method}, where every site knows every class, has {found.mean:.3f}"
                break
    return text + "." + f" {fewer} with fewer or other seeds are not compared." * (fewer > 0)


def _above(best: Mapping[int, float], second: Mapping[int, float]) -> str:
    """Return how far the best is above the next, and whether chance could have done it."""
    apart = estimate([best[seed] - second[seed] for seed in best])
    if apart.interval is None:
        return f"{apart.mean:.3f} ({_FEW[len(best)]}, so it may be chance) above"
    chance = " (it may be chance)" * (apart.interval >= abs(apart.mean))
    return f"{apart.mean:.3f} ± {apart.interval:.3f}{chance} above"


def _lost(results: Results, method: str, low: float, high: float, metric: str) -> float | None:
    """Return what skew costs a method, over the seeds that it has at both."""
    dataset = results.study.datasets[0]
    without = results.by_seed(dataset, method, low, metric)
    with_skew = results.by_seed(dataset, method, high, metric)
    common = [without[seed] - with_skew[seed] for seed in without if seed in with_skew]
    return fmean(common) if common else None


def _changes(lost: float) -> str:
    return f"loses {lost:.3f}" if lost >= 0 else f"gains {-lost:.3f}"

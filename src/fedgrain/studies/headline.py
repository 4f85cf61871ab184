"""One sentence on what a study shows, made from its numbers."""

from __future__ import annotations

from fedgrain.studies.collect import Results
from fedgrain.studies.methods import is_bound


def sentence(results: Results) -> str:
    """Return which method is best at the largest skew, and how much skew costs."""
    study, metric = results.study, list(results.metrics)[-1]
    dataset, high, low = study.datasets[0], max(study.alphas), min(study.alphas)

    def means(alpha: float) -> dict[str, float]:
        found = {m: results.estimate(dataset, m, alpha, metric) for m in study.methods}
        return {
            m: value.mean for m, value in found.items() if value is not None and not is_bound(m)
        }

    at_high, at_low = means(high), means(low)
    if not at_high:
        return f"On {dataset} no run at alpha {high:g} is finished yet."
    order = sorted(at_high, key=at_high.__getitem__, reverse=True)
    best = order[0]
    name = results.metrics[metric]
    text = f"On {dataset} at alpha {high:g}, {best} has the best {name}, {at_high[best]:.3f}"
    if len(order) > 1:
        second, last = order[1], order[-1]
        text += f", {at_high[best] - at_high[second]:.3f} above the next, {second}"
        if last != second:
            text += f", and {at_high[best] - at_high[last]:.3f} above {last}"
    both = [m for m in order if m in at_low]
    if low < high and best in both and len(both) > 1:
        lost = {m: at_low[m] - at_high[m] for m in both}
        most = max(both, key=lost.__getitem__)
        if most != best:
            text += (
                f"; from alpha {low:g} to {high:g} it {_changes(lost[best])}, "
                f"{most} {_changes(lost[most])}"
            )
    return text + "."


def _changes(lost: float) -> str:
    return f"loses {lost:.3f}" if lost >= 0 else f"gains {-lost:.3f}"

"""One sentence on what a study shows, made from its numbers."""

from __future__ import annotations

from fedgrain.studies.methods import Skew, is_bound, parse_method, skew_name
from fedgrain.tables.alone import alone_headline, alone_rows
from fedgrain.tables.collect import Results


def sentence(results: Results) -> str:
    """Return which method is best, at the largest skew if one is simulated, and what skew costs."""
    rows = alone_rows(results)
    if rows:
        return alone_headline(rows)
    study, metric = results.study, list(results.metrics)[-1]
    dataset, low, high = study.datasets[0], study.ascending[0], study.ascending[-1]
    place = f"On {dataset}" + ("" if high is None else f" at {skew_name(high)}")

    def means(alpha: Skew) -> dict[str, float]:
        found = {m: results.estimate(dataset, m, alpha, metric) for m in study.methods}
        return {
            m: value.mean for m, value in found.items() if value is not None and not is_bound(m)
        }

    at_high, at_low = means(high), means(low)
    if not at_high:
        return f"{place} no run is finished yet."
    order = sorted(at_high, key=at_high.__getitem__, reverse=True)
    best = order[0]
    name = results.metrics[metric]
    text = f"{place}, {best} has the best {name}, {at_high[best]:.3f}"
    if len(order) > 1:
        second, last = order[1], order[-1]
        text += f", {at_high[best] - at_high[second]:.3f} above the next, {second}"
        if last != second:
            text += f", and {at_high[best] - at_high[last]:.3f} above {last}"
    both = [m for m in order if m in at_low]
    if low is not None and high is not None and low < high and best in both and len(both) > 1:
        lost = {m: at_low[m] - at_high[m] for m in both}
        most = max(both, key=lost.__getitem__)
        if most != best:
            text += (
                f"; from alpha {low:g} to {high:g} it {_changes(lost[best])}, "
                f"{most} {_changes(lost[most])}"
            )
    if high is not None and low == high:  # what no skew would give is in no other column
        for method in study.methods:
            found = results.estimate(dataset, method, high, metric)
            if parse_method(method).bound == "oracle" and found is not None:
                text += f"; {method}, where every site knows every class, has {found.mean:.3f}"
                break
    return text + "."


def _changes(lost: float) -> str:
    return f"loses {lost:.3f}" if lost >= 0 else f"gains {-lost:.3f}"

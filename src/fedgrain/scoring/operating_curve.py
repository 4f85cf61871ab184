"""The scores of the rule `threshold` at every threshold (method, section 7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fedgrain.errors import PredictionError
from fedgrain.scoring.metrics import Nodes, Values, comparable, hierarchical_scores
from fedgrain.scoring.rules import check_rule
from fedgrain.scoring.specificity import best_by_specificity, checked_table, rounded
from fedgrain.taxonomy.tree import Taxonomy


@dataclass(frozen=True)
class OperatingCurve:
    """Mean scores as the threshold falls: from the root for everyone to a leaf for everyone.

    Entry i holds for thresholds above ``threshold[i + 1]`` and up to ``threshold[i]``, that one
    included: given to :func:`~fedgrain.scoring.rules.predict` it has exactly these scores.
    """

    threshold: Values  # falling, from 1, above 0
    hr: Values
    hp: Values
    hf: Values

    def at(self, threshold: float) -> tuple[float, float, float]:
        """Return HR, HP and HF with the rule `threshold`."""
        check_rule("threshold", threshold)
        place = int(np.searchsorted(-self.threshold, -rounded(threshold), side="right")) - 1
        return float(self.hr[place]), float(self.hp[place]), float(self.hf[place])


def operating_curve(
    log_probs: Tensor | NDArray[Any] | Iterable[Tensor | NDArray[Any]],
    taxonomy: Taxonomy,
    truth: ArrayLike,
    full_taxonomy: Taxonomy,
) -> OperatingCurve:
    """Return the scores of the rule `threshold` at every threshold, exactly (truths of H_full).

    ``log_probs`` is a table [samples, nodes], or blocks of its rows where the whole is too large.
    As the threshold falls, a sample moves only to more specific nodes, each time at the P of the
    node it moves to; the curve is the running sum of what those moves change.
    """
    truths, seen, found = np.asarray(truth), 0, []
    for block in [log_probs] if isinstance(log_probs, Tensor | np.ndarray) else log_probs:
        table = checked_table(block, taxonomy)
        own = truths[seen : seen + len(table)] if truths.ndim else truths
        seen += len(table)
        if own.shape == (len(table),):
            found.append(_moves(table, taxonomy, own, full_taxonomy))
    if truths.shape != (seen,) or not seen:
        raise PredictionError(f"give one truth per sample: {truths.size} for {seen}")
    level, *changes = (np.concatenate(column) for column in zip(*found, strict=True))
    falling = np.argsort(-level, kind="stable")
    level = level[falling]
    last = np.flatnonzero(np.append(np.diff(level) != 0, True))
    curves = [np.cumsum(change[falling])[last] / seen for change in changes]
    return OperatingCurve(level[last], *curves)


def _moves(
    table: NDArray[np.floating[Any]], taxonomy: Taxonomy, truths: Nodes, full_taxonomy: Taxonomy
) -> tuple[Values, ...]:
    """Return at which P samples move, and by how much each move changes HR, HP and HF."""
    best, node = best_by_specificity(table, taxonomy)
    moves = best > 0.0  # no threshold is low enough for the others
    moves[:, 1:] &= best[:, 1:] > np.maximum.accumulate(best, axis=1)[:, :-1]
    sample, group = np.nonzero(moves)  # a sample's stations, most specific first
    station = comparable(node[sample, group], truths[sample], taxonomy, full_taxonomy)
    scores = hierarchical_scores(truths[sample], station, full_taxonomy)
    coarsest = np.append(np.diff(sample) != 0, True)  # where a sample starts, at threshold 1
    return best[sample, group], *(
        values - np.where(coarsest, 0.0, np.append(values[1:], 0.0))
        for values in (scores.hr, scores.hp, scores.hf)
    )

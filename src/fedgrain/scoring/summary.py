"""All scores of a set of predictions in one object: what ``result.json`` and tables hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from fedgrain.errors import PredictionError
from fedgrain.plugins import load_callable
from fedgrain.scoring.metrics import Nodes, checked_pairs, comparable
from fedgrain.taxonomy.tree import Taxonomy


@dataclass(frozen=True)
class Metric:
    """Where a metric is computed: ``module:function``, and the part of its answer that counts.

    The function takes truths, predictions and H_full. It returns one value, or one per sample of
    which the mean is taken: None if there are none.
    """

    home: str
    part: str | None = None


_SCORES = "fedgrain.scoring.metrics:hierarchical_scores"
_MICRO = "fedgrain.scoring.comparison:micro_scores"
_INFORMATION = "fedgrain.scoring.comparison:information_scores"


@dataclass(frozen=True)
class Summary:
    """Means over samples; ``None`` where there is nothing to take the mean of.

    A metric is one line here, with its :class:`Metric`; the other fields are computed below.
    """

    samples: int
    hr: Annotated[float, Metric(_SCORES, "hr")]
    hp: Annotated[float, Metric(_SCORES, "hp")]
    hf: Annotated[float, Metric(_SCORES, "hf")]
    # exact hits among the samples whose truth is a leaf
    accuracy: Annotated[float | None, Metric("fedgrain.scoring.metrics:leaf_hits")]
    accuracy_per_depth: tuple[float, ...]  # entry i: depth i + 1 of H
    # height of the lca, over wrong predictions
    mistake_severity: Annotated[float | None, Metric("fedgrain.scoring.metrics:mistake_heights")]
    # the sums divided, not the mean of quotients: see micro_scores
    micro_hr: Annotated[float, Metric(_MICRO, "hr")]
    micro_hp: Annotated[float, Metric(_MICRO, "hp")]
    micro_hf: Annotated[float, Metric(_MICRO, "hf")]
    edge_distance: Annotated[float, Metric("fedgrain.scoring.comparison:edge_distance")]
    lca_depth: Annotated[float, Metric("fedgrain.scoring.comparison:lca_depth")]
    # with information in place of depth: see information_scores
    information_hr: Annotated[float, Metric(_INFORMATION, "hr")]
    information_hp: Annotated[float, Metric(_INFORMATION, "hp")]
    information_hf: Annotated[float, Metric(_INFORMATION, "hf")]


@cache
def _metrics() -> dict[str, tuple[Callable[..., Any], str | None]]:
    """Return the function of every metric of the summary, and the part of its answer."""
    found = {}
    for name, hint in get_type_hints(Summary, include_extras=True).items():
        for metric in getattr(hint, "__metadata__", ()):
            home = load_callable(metric.home, "metric", PredictionError)
            found[name] = home, metric.part
    return found


def score(
    nodes: ArrayLike, truth: ArrayLike, taxonomy: Taxonomy, full_taxonomy: Taxonomy
) -> Summary:
    """Score predicted nodes of H against truths of H_full, cut back where a truth is coarse."""
    prediction = comparable(nodes, truth, taxonomy, full_taxonomy)
    return summarise(truth, prediction, full_taxonomy, taxonomy)


def summarise(
    truth: ArrayLike,
    prediction: ArrayLike,
    full_taxonomy: Taxonomy,
    taxonomy: Taxonomy | None = None,
) -> Summary:
    """Return all scores of section 8 over a set of samples.

    ``taxonomy`` is H, whose depths ``accuracy_per_depth`` goes by (*default*: H_full itself). Cut
    predictions back first where truths are coarse.
    """
    truths, predictions = checked_pairs(truth, prediction, full_taxonomy)
    if not truths.size:
        raise PredictionError("there are no predictions to score")
    metrics = _metrics()
    answers = {
        function: function(truths, predictions, full_taxonomy)
        for function in {function for function, _ in metrics.values()}
    }
    values: dict[str, Any] = {
        name: _mean(answers[function] if part is None else getattr(answers[function], part))
        for name, (function, part) in metrics.items()
    }
    per_depth = _accuracy_per_depth(truths, predictions, full_taxonomy, taxonomy)
    return Summary(samples=len(truths), accuracy_per_depth=per_depth, **values)


def _mean(value: ArrayLike) -> float | None:
    values = np.asarray(value)
    return float(values.mean()) if values.size else None


def _accuracy_per_depth(
    truths: Nodes, predictions: Nodes, full_taxonomy: Taxonomy, taxonomy: Taxonomy | None
) -> tuple[float, ...]:
    """Share of truths that reach depth i + 1 of H whose ancestor there is also the prediction's."""
    if taxonomy is not None:
        to_coarse = full_taxonomy.nearest_in(taxonomy)
        truths = to_coarse[truths].astype(np.int64)
        predictions = to_coarse[predictions].astype(np.int64)
    table = (full_taxonomy if taxonomy is None else taxonomy).ancestor_table
    expected, found = table[truths, 1:], table[predictions, 1:]  # [samples, depths]
    reached = expected >= 0
    hits = (reached & (expected == found)).sum(0)
    deepest = int(reached.any(0).sum())
    return tuple((hits[:deepest] / reached.sum(0)[:deepest]).tolist())

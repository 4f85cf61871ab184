"""All scores of a set of predictions in one object: what ``result.json`` and tables hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedgrain.errors import PredictionError
from fedgrain.scoring.comparison import edge_distance, information_scores, lca_depth, micro_scores
from fedgrain.scoring.metrics import Nodes, checked_pairs, comparable, hierarchical_scores
from fedgrain.taxonomy.tree import Taxonomy


@dataclass(frozen=True)
class Summary:
    """Means over samples; ``None`` where there is nothing to take the mean of."""

    samples: int
    hr: float
    hp: float
    hf: float
    accuracy: float | None  # exact hits among the samples whose truth is a leaf
    accuracy_per_depth: tuple[float, ...]  # entry i: depth i + 1 of H
    mistake_severity: float | None  # height of the lca, over wrong predictions
    micro_hr: float  # the sums divided, not the mean of quotients: see micro_scores
    micro_hp: float
    micro_hf: float
    edge_distance: float
    lca_depth: float
    information_hr: float  # with information in place of depth: see information_scores
    information_hp: float
    information_hf: float


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
    scores = hierarchical_scores(truths, predictions, full_taxonomy)
    micro = micro_scores(truths, predictions, full_taxonomy)
    informed = information_scores(truths, predictions, full_taxonomy)
    wrong = truths != predictions
    at_leaf = full_taxonomy.is_leaf(truths)
    parting = full_taxonomy.lca(truths[wrong], predictions[wrong])
    return Summary(
        samples=len(truths),
        hr=float(scores.hr.mean()),
        hp=float(scores.hp.mean()),
        hf=float(scores.hf.mean()),
        accuracy=float((~wrong)[at_leaf].mean()) if at_leaf.any() else None,
        accuracy_per_depth=_accuracy_per_depth(truths, predictions, full_taxonomy, taxonomy),
        mistake_severity=float(full_taxonomy.heights[parting].mean()) if wrong.any() else None,
        micro_hr=micro.hr,
        micro_hp=micro.hp,
        micro_hf=micro.hf,
        edge_distance=float(edge_distance(truths, predictions, full_taxonomy).mean()),
        lca_depth=float(lca_depth(truths, predictions, full_taxonomy).mean()),
        information_hr=float(informed.hr.mean()),
        information_hp=float(informed.hp.mean()),
        information_hf=float(informed.hf.mean()),
    )


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

"""Scores per class and per node: where in the taxonomy a model goes wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgrain.scoring.metrics import (
    Nodes,
    Values,
    checked_pairs,
    hierarchical_scores,
    recall_precision_f,
)
from fedgrain.taxonomy.tree import Taxonomy


@dataclass(frozen=True)
class ClassScores:
    """Means per true class, for the classes that occur, ascending."""

    nodes: Nodes
    samples: Nodes
    hr: Values
    hp: Values
    hf: Values
    accuracy: Values


@dataclass(frozen=True)
class NodeScores:
    """Per node, the score of "the sample lies at or below it"; nan where no sample does."""

    truths: Nodes  # samples whose truth is at or below the node
    predictions: Nodes  # samples whose prediction is
    hits: Nodes  # both
    recall: Values
    precision: Values
    f1: Values


def per_class(truth: ArrayLike, prediction: ArrayLike, full_taxonomy: Taxonomy) -> ClassScores:
    """Return the scores of each true class."""
    truths, predictions = checked_pairs(truth, prediction, full_taxonomy)
    scores = hierarchical_scores(truths, predictions, full_taxonomy)
    nodes, which, samples = np.unique(truths, return_inverse=True, return_counts=True)

    def mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> Values:
        return np.bincount(which, weights=values, minlength=len(nodes)) / samples

    hits = truths == predictions
    return ClassScores(
        nodes, samples, mean(scores.hr), mean(scores.hp), mean(scores.hf), mean(hits)
    )


def per_node(truth: ArrayLike, prediction: ArrayLike, full_taxonomy: Taxonomy) -> NodeScores:
    """Return recall, precision and F1 of every node, as a class that holds all below it."""
    truths, predictions = checked_pairs(truth, prediction, full_taxonomy)
    parting = full_taxonomy.lca(truths, predictions)
    true_count, predicted_count, hits = (
        full_taxonomy.sums_below(np.bincount(nodes, minlength=len(full_taxonomy)))
        for nodes in (truths, predictions, parting)
    )
    scores = recall_precision_f(hits, true_count, predicted_count, otherwise=np.nan)
    return NodeScores(true_count, predicted_count, hits, *scores)

"""Hierarchical scores of predicted nodes, and what they are compared with (method, section 8).

Everything is counted on H_full, root depth 0, in node numbers of H_full. A prediction is a node of
H: :func:`comparable` is the one way from there to what is compared with the truth. Validation,
results, curves and reports all take it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgrain.errors import PredictionError
from fedgrain.taxonomy.tree import Taxonomy

Nodes = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Hierarchical recall, precision and F of each sample."""

    hr: Values
    hp: Values
    hf: Values


def cut_back(truth: ArrayLike, prediction: ArrayLike, taxonomy: Taxonomy) -> Nodes:
    """Replace a prediction below a coarse truth by that truth.

    Being more specific than the labeller is not an error.
    """
    truths, predictions = checked_pairs(truth, prediction, taxonomy)
    return np.where(taxonomy.is_ancestor(truths, predictions), truths, predictions)


def comparable(
    nodes: ArrayLike, truth: ArrayLike, taxonomy: Taxonomy, full_taxonomy: Taxonomy
) -> Nodes:
    """Return predicted nodes of H as they are compared with truths of H_full.

    Every score goes through here: to H_full, then cut back where the truth is coarse.
    """
    prediction = taxonomy.numbers_in(full_taxonomy)[np.asarray(nodes)]
    return cut_back(truth, prediction, full_taxonomy)


def mean_hf(
    nodes: ArrayLike, truth: ArrayLike, taxonomy: Taxonomy, full_taxonomy: Taxonomy
) -> float:
    """Return the mean HF of predicted nodes of H against truths of H_full."""
    prediction = comparable(nodes, truth, taxonomy, full_taxonomy)
    return float(hierarchical_scores(truth, prediction, full_taxonomy).hf.mean())


def hierarchical_scores(truth: ArrayLike, prediction: ArrayLike, full_taxonomy: Taxonomy) -> Scores:
    """HR = d(lca)/d(truth), HP = d(lca)/d(prediction), HF = 2 d(lca)/(d(truth) + d(prediction)).

    Predicting the root is never wrong: HP is 1. Likewise HR is 1 where the truth is the root.
    """
    truths, predictions = checked_pairs(truth, prediction, full_taxonomy)
    common = full_taxonomy.lca_depth(truths, predictions)
    depth = full_taxonomy.depth
    return Scores(*recall_precision_f(common, depth[truths], depth[predictions]))


def leaf_hits(
    truth: ArrayLike, prediction: ArrayLike, full_taxonomy: Taxonomy
) -> NDArray[np.bool_]:
    """Return whether the prediction is the truth, for the samples whose truth is a leaf."""
    truths, predictions = checked_pairs(truth, prediction, full_taxonomy)
    return np.asarray((truths == predictions)[full_taxonomy.is_leaf(truths)])


def mistake_heights(truth: ArrayLike, prediction: ArrayLike, full_taxonomy: Taxonomy) -> Nodes:
    """Return the height of the lowest common ancestor, for the samples predicted wrong."""
    truths, predictions = checked_pairs(truth, prediction, full_taxonomy)
    wrong = truths != predictions
    return np.asarray(full_taxonomy.heights[full_taxonomy.lca(truths[wrong], predictions[wrong])])


def recall_precision_f(
    common: ArrayLike, of_truth: ArrayLike, of_prediction: ArrayLike, otherwise: float = 1.0
) -> tuple[Values, Values, Values]:
    """Return common/truth, common/prediction and their harmonic mean; ``otherwise`` for 0/0."""
    shared, true, predicted = (
        np.asarray(side, np.float64) for side in (common, of_truth, of_prediction)
    )

    def ratio(above: Values, below: Values) -> Values:
        return np.where(below == 0, otherwise, above / np.where(below == 0, 1.0, below))

    return ratio(shared, true), ratio(shared, predicted), ratio(2 * shared, true + predicted)


def checked_pairs(a: ArrayLike, b: ArrayLike, taxonomy: Taxonomy) -> tuple[Nodes, Nodes]:
    """Check two arrays of node numbers of the same length."""
    first, second = np.asarray(a), np.asarray(b)
    if first.ndim != 1 or first.shape != second.shape:
        raise PredictionError(
            f"truths and predictions must be two lists of the same length, "
            f"not of shapes {list(first.shape)} and {list(second.shape)}"
        )
    for nodes in (first, second):
        if nodes.size and (
            nodes.dtype.kind not in "iu" or nodes.min() < 0 or nodes.max() >= len(taxonomy)
        ):
            raise PredictionError(
                f"nodes are whole numbers from 0 to {len(taxonomy) - 1}, "
                f"not {nodes.dtype} from {nodes.min()} to {nodes.max()}"
            )
    return first.astype(np.int64), second.astype(np.int64)

"""Hierarchical scores of predicted nodes (method, section 8).

Everything is counted on H_full, root depth 0, in node numbers of H_full; :func:`numbers_in` takes
the nodes of a coarse taxonomy there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgrain.errors import PredictionError
from fedgrain.knowledge.closure import counts_below
from fedgrain.taxonomy.tree import Taxonomy

Nodes = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Hierarchical recall, precision and F of each sample."""

    hr: Values
    hp: Values
    hf: Values


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


def numbers_in(full_taxonomy: Taxonomy, taxonomy: Taxonomy) -> Nodes:
    """Return for each node of ``taxonomy`` its number in ``full_taxonomy``, by id."""
    missing = [node for node in taxonomy.ids if node not in full_taxonomy]
    if missing:
        raise PredictionError(
            f"node {missing[0]!r} is not in the full taxonomy; score with the one it came from"
        )
    return np.array([full_taxonomy.index(node) for node in taxonomy.ids], dtype=np.int64)


def hierarchical_scores(truth: ArrayLike, prediction: ArrayLike, full_taxonomy: Taxonomy) -> Scores:
    """HR = d(lca)/d(truth), HP = d(lca)/d(prediction), HF = 2 d(lca)/(d(truth) + d(prediction)).

    Predicting the root says nothing wrong: HP 1. Likewise HR is 1 where the truth is the root.
    """
    truths, predictions = _pairs(truth, prediction, full_taxonomy)
    common = _lca_depth(truths, predictions, full_taxonomy)
    deep_truth, deep_prediction = full_taxonomy.depth[truths], full_taxonomy.depth[predictions]
    return Scores(
        _ratio(common, deep_truth, 1.0),
        _ratio(common, deep_prediction, 1.0),
        _ratio(2 * common, deep_truth + deep_prediction, 1.0),
    )


@dataclass(frozen=True)
class MicroScores:
    """Hierarchical recall, precision and F of all samples together."""

    hr: float
    hp: float
    hf: float


def micro_scores(truth: ArrayLike, prediction: ArrayLike, full_taxonomy: Taxonomy) -> MicroScores:
    """Micro-averaged scores, the default of hiclass: sums over samples first, then the quotient.

    HR = sum d(lca) / sum d(truth), HP = sum d(lca) / sum d(prediction), HF their harmonic mean.
    Deep truths and predictions weigh more than in the mean of :func:`hierarchical_scores`.
    """
    truths, predictions = _pairs(truth, prediction, full_taxonomy)
    common = _lca_depth(truths, predictions, full_taxonomy).sum()
    of_truths = full_taxonomy.depth[truths].sum(dtype=np.int64)
    of_predictions = full_taxonomy.depth[predictions].sum(dtype=np.int64)
    return MicroScores(
        float(_ratio(common, of_truths, 1.0)),
        float(_ratio(common, of_predictions, 1.0)),
        float(_ratio(2 * common, of_truths + of_predictions, 1.0)),
    )


def edge_distance(truth: ArrayLike, prediction: ArrayLike, taxonomy: Taxonomy) -> Nodes:
    """Return the number of edges between truth and prediction of each sample."""
    truths, predictions = _pairs(truth, prediction, taxonomy)
    common = _lca_depth(truths, predictions, taxonomy)
    return np.asarray(taxonomy.depth[truths] + taxonomy.depth[predictions] - 2 * common)


def lca_depth(truth: ArrayLike, prediction: ArrayLike, taxonomy: Taxonomy) -> Nodes:
    """Return the depth of the lowest common ancestor of truth and prediction of each sample."""
    return _lca_depth(*_pairs(truth, prediction, taxonomy), taxonomy)


def information(taxonomy: Taxonomy) -> Values:
    """Return what each node tells, in bits, if all leaves are equally likely: 0 for the root."""
    return np.log2(len(taxonomy.leaves) / taxonomy.leaf_counts)


def information_scores(truth: ArrayLike, prediction: ArrayLike, full_taxonomy: Taxonomy) -> Scores:
    """Recall, precision and F of each sample with information in place of depth (hiercls).

    I(lca)/I(truth), I(lca)/I(prediction) and their harmonic mean. A node over all leaves tells
    nothing: predicting it has precision 1, and recall is 1 where the truth is such a node.
    """
    truths, predictions = _pairs(truth, prediction, full_taxonomy)
    bits = information(full_taxonomy)
    common = bits[lowest_common_ancestors(truths, predictions, full_taxonomy)]
    return Scores(
        _ratio(common, bits[truths], 1.0),
        _ratio(common, bits[predictions], 1.0),
        _ratio(2 * common, bits[truths] + bits[predictions], 1.0),
    )


def cut_back(truth: ArrayLike, prediction: ArrayLike, taxonomy: Taxonomy) -> Nodes:
    """Replace a prediction below a coarse truth by that truth.

    Being more specific than the labeller is not an error.
    """
    truths, predictions = _pairs(truth, prediction, taxonomy)
    return np.where(taxonomy.is_ancestor(truths, predictions), truths, predictions)


def comparable(
    nodes: ArrayLike, truth: ArrayLike, taxonomy: Taxonomy, full_taxonomy: Taxonomy
) -> Nodes:
    """Return predicted nodes of H as they are compared with truths of H_full.

    Every score goes through here: to H_full, then cut back where the truth is coarse.
    """
    prediction = numbers_in(full_taxonomy, taxonomy)[np.asarray(nodes)]
    return cut_back(truth, prediction, full_taxonomy)


def lowest_common_ancestors(a: ArrayLike, b: ArrayLike, taxonomy: Taxonomy) -> Nodes:
    """Return the node where the paths of a[i] and b[i] part."""
    first, second = _pairs(a, b, taxonomy)
    return ancestor_table(taxonomy)[first, _lca_depth(first, second, taxonomy)]


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
    truths, predictions = _pairs(truth, prediction, full_taxonomy)
    if not truths.size:
        raise PredictionError("there are no predictions to score")
    scores = hierarchical_scores(truths, predictions, full_taxonomy)
    micro = micro_scores(truths, predictions, full_taxonomy)
    informed = information_scores(truths, predictions, full_taxonomy)
    wrong = truths != predictions
    at_leaf = full_taxonomy.subtree_end[truths] == truths + 1
    parting = lowest_common_ancestors(truths[wrong], predictions[wrong], full_taxonomy)
    return Summary(
        samples=len(truths),
        hr=float(scores.hr.mean()),
        hp=float(scores.hp.mean()),
        hf=float(scores.hf.mean()),
        accuracy=float((~wrong)[at_leaf].mean()) if at_leaf.any() else None,
        accuracy_per_depth=_accuracy_per_depth(truths, predictions, full_taxonomy, taxonomy),
        mistake_severity=float(heights(full_taxonomy)[parting].mean()) if wrong.any() else None,
        micro_hr=micro.hr,
        micro_hp=micro.hp,
        micro_hf=micro.hf,
        edge_distance=float(edge_distance(truths, predictions, full_taxonomy).mean()),
        lca_depth=float(lca_depth(truths, predictions, full_taxonomy).mean()),
        information_hr=float(informed.hr.mean()),
        information_hp=float(informed.hp.mean()),
        information_hf=float(informed.hf.mean()),
    )


def per_class(truth: ArrayLike, prediction: ArrayLike, full_taxonomy: Taxonomy) -> ClassScores:
    """Return the scores of each true class."""
    truths, predictions = _pairs(truth, prediction, full_taxonomy)
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
    truths, predictions = _pairs(truth, prediction, full_taxonomy)
    parting = lowest_common_ancestors(truths, predictions, full_taxonomy)
    true_count, predicted_count, hits = (
        counts_below(full_taxonomy, np.bincount(nodes, minlength=len(full_taxonomy))[None])[0]
        for nodes in (truths, predictions, parting)
    )
    return NodeScores(
        true_count,
        predicted_count,
        hits,
        _ratio(hits, true_count, np.nan),
        _ratio(hits, predicted_count, np.nan),
        _ratio(2 * hits, true_count + predicted_count, np.nan),
    )


@lru_cache(maxsize=8)
def ancestor_table(taxonomy: Taxonomy) -> Nodes:
    """Return the ancestor-or-self of each node at each depth [nodes, depths]; -1 below the node."""
    table = np.full((len(taxonomy), int(taxonomy.depth.max()) + 1), -1, dtype=np.int64)
    table[:, 0] = 0
    for depth in range(1, table.shape[1]):
        nodes = np.flatnonzero(taxonomy.depth == depth)
        table[nodes] = table[taxonomy.parents[nodes]]
        table[nodes, depth] = nodes
    table.flags.writeable = False
    return table


@lru_cache(maxsize=8)
def heights(taxonomy: Taxonomy) -> Nodes:
    """Return the longest way down from each node to a leaf."""
    height = np.zeros(len(taxonomy), dtype=np.int64)
    for depth in range(int(taxonomy.depth.max()), 0, -1):
        nodes = np.flatnonzero(taxonomy.depth == depth)
        np.maximum.at(height, taxonomy.parents[nodes], height[nodes] + 1)
    height.flags.writeable = False
    return height


def _accuracy_per_depth(
    truths: Nodes, predictions: Nodes, full_taxonomy: Taxonomy, taxonomy: Taxonomy | None
) -> tuple[float, ...]:
    """Share of truths that reach depth i + 1 of H whose ancestor there is also the prediction's."""
    if taxonomy is not None:
        to_coarse = full_taxonomy.nearest_in(taxonomy)
        truths = to_coarse[truths].astype(np.int64)
        predictions = to_coarse[predictions].astype(np.int64)
    table = ancestor_table(full_taxonomy if taxonomy is None else taxonomy)
    expected, found = table[truths, 1:], table[predictions, 1:]  # [samples, depths]
    reached = expected >= 0
    hits = (reached & (expected == found)).sum(0)
    deepest = int(reached.any(0).sum())
    return tuple((hits[:deepest] / reached.sum(0)[:deepest]).tolist())


def _lca_depth(truths: Nodes, predictions: Nodes, taxonomy: Taxonomy) -> Nodes:
    table = ancestor_table(taxonomy)
    expected = table[truths]  # [samples, depths]
    return np.asarray(((expected >= 0) & (expected == table[predictions])).sum(1) - 1)


def _ratio(above: ArrayLike, below: ArrayLike, otherwise: float) -> Values:
    top, bottom = np.asarray(above, np.float64), np.asarray(below, np.float64)
    return np.where(bottom == 0, otherwise, top / np.where(bottom == 0, 1.0, bottom))


def _pairs(a: ArrayLike, b: ArrayLike, taxonomy: Taxonomy) -> tuple[Nodes, Nodes]:
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

"""Scores of other papers and libraries, so that results can be compared with theirs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedgrain.scoring.metrics import Nodes, Scores, Values, checked_pairs, recall_precision_f
from fedgrain.taxonomy.tree import Taxonomy


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
    truths, predictions = checked_pairs(truth, prediction, full_taxonomy)
    common = full_taxonomy.lca_depth(truths, predictions).sum()
    of_truths = full_taxonomy.depth[truths].sum(dtype=np.int64)
    of_predictions = full_taxonomy.depth[predictions].sum(dtype=np.int64)
    return MicroScores(*map(float, recall_precision_f(common, of_truths, of_predictions)))


def edge_distance(truth: ArrayLike, prediction: ArrayLike, taxonomy: Taxonomy) -> Nodes:
    """Return the number of edges between truth and prediction of each sample."""
    truths, predictions = checked_pairs(truth, prediction, taxonomy)
    common = taxonomy.lca_depth(truths, predictions)
    return np.asarray(taxonomy.depth[truths] + taxonomy.depth[predictions] - 2 * common)


def lca_depth(truth: ArrayLike, prediction: ArrayLike, taxonomy: Taxonomy) -> Nodes:
    """Return the depth of the lowest common ancestor of truth and prediction of each sample."""
    return taxonomy.lca_depth(*checked_pairs(truth, prediction, taxonomy)).astype(np.int64)


def information(taxonomy: Taxonomy) -> Values:
    """Return the information of each node, in bits, for equally likely leaves: 0 for the root."""
    return np.log2(len(taxonomy.leaves) / taxonomy.leaf_counts)


def information_scores(truth: ArrayLike, prediction: ArrayLike, full_taxonomy: Taxonomy) -> Scores:
    """Recall, precision and F of each sample with information in place of depth (hiercls).

    I(lca)/I(truth), I(lca)/I(prediction) and their harmonic mean. A node over all leaves has no
    information: predicting it has precision 1, and recall is 1 where the truth is such a node.
    """
    truths, predictions = checked_pairs(truth, prediction, full_taxonomy)
    bits = information(full_taxonomy)
    common = bits[full_taxonomy.lca(truths, predictions)]
    return Scores(*recall_precision_f(common, bits[truths], bits[predictions]))

"""FedMT: which labels of a site stand for which classes, by a free table (arXiv 2210.02042).

Zhang et al. (FedMT, Federated Learning with Mixed-type Labels) link the classes k of the wanted
label space with the labels j of a site by M[k, j], the probability that an image of k is labelled
j. The loss of an image labelled j is -log sum over k of P(k) M[k, j]. If M is not known, the model
predicts the classes of the site's images, confident predictions are counted against the labels
written, and each row is divided by its sum. Here the wanted label space are the leaves, and the
site's other one its labels at inner nodes. What the paper knows nothing of, the tree, is not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Correspondence:
    """How often a labeller writes each of some labels for each leaf."""

    labels: Ints  # nodes
    table: Floats  # [labels, leaves]


def counted(labels: Ints, predicted: Ints, leaves: int, confident: NDArray[np.bool_]) -> Floats:
    """Return how often each label met each predicted leaf [different labels, leaves]."""
    _, places = np.unique(labels, return_inverse=True)
    number = int(places.max(initial=-1)) + 1
    chosen = places[confident] * leaves + predicted[confident]
    return np.bincount(chosen, minlength=number * leaves).reshape(number, leaves).astype(np.float64)


def correspondence(
    labels: Ints, predicted: Ints, leaves: int, confident: NDArray[np.bool_]
) -> Correspondence:
    """Estimate FedMT's M from labels and the leaves (by position) that a model predicts.

    A leaf that is never predicted says nothing: it stands for every label alike.
    """
    counts = counted(labels, predicted, leaves, confident)
    seen = counts.sum(axis=0)
    table = np.where(seen > 0, counts / np.maximum(seen, 1.0), 1.0 / max(len(counts), 1))
    return Correspondence(np.unique(labels), table)

"""How labellers write, learned from their labels alone (method, section 11).

On the way down to a class a labeller stops before node c with probability ``stops[c]``, and writes
the node it has reached. So the only thing hidden about an image labelled y is the child of y it
belongs to. Everything here is a pure function of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy.tree import BoolArray, Taxonomy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LABELS_TO_KNOW = 2  # one stray label is not knowledge
_START = 0.1  # laziness before anything is seen
_PRIOR = (1.0, 10.0)  # a labeller starts with one early stop in ten labels
_MOST = 0.95  # so that no label becomes impossible
_OWN_WEIGHT = 20.0  # an annotator's own estimate counts in full from several times as many labels
_STEPS = 200  # of EM, at most
_CLOSE = 1e-6  # EM ends when no laziness moves further


@dataclass(frozen=True, eq=False)
class LabellerModel:
    """How each labeller of a site writes: T of the method, section 11.

    A known leaf is written in full, or with probability ``laziness`` as its parent. Any other
    leaf is written as its deepest known ancestor.
    """

    taxonomy: Taxonomy  # H
    known: BoolArray  # [labellers, nodes], closed upwards
    laziness: Floats  # [labellers]

    @property
    def stops(self) -> Floats:
        """The probability to stop before each node, at its parent: [labellers, nodes]."""
        lazy = np.where(self.taxonomy.child_counts == 0, self.laziness[:, None], 0.0)
        stops = np.where(self.known, lazy, 1.0)
        stops[:, 0] = 0.0
        return stops

    def writes(self, labeller: int) -> Floats:
        """Return T [leaves, depths]: how often a leaf's ancestor at each depth is written for it.

        The last entry of a leaf is its own depth; below it there is nothing to write.
        """
        return written(self.taxonomy, self.stops[labeller])


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the labellers of a site wrote, and what the model sees in the images they left open.

    ``probabilities`` are those of the label's children by the model. They need not sum to 1.
    """

    passes: Floats  # [labellers, nodes], how many labels are at the node or below it
    labellers: Ints  # [images], who stopped
    children: Ints  # [images, most children], of the label; 0 where there are fewer
    probabilities: Floats  # [images, most children], 0 where there are fewer


def inferred_known(
    taxonomy: Taxonomy, labels: Ints, labellers: Ints | None = None, count: int = 1,
    min_count: int | None = None,
) -> BoolArray:  # fmt: skip
    """Return the nodes each labeller seems to know [labellers, nodes].

    A labeller knows what it wrote, or wrote something below of, at least ``min_count`` times
    (default 2).
    """
    least = LABELS_TO_KNOW if min_count is None else min_count
    known = label_counts(taxonomy, labels, labellers, count) >= least
    known[:, 0] = True
    return known


def label_counts(
    taxonomy: Taxonomy, labels: Ints, labellers: Ints | None = None, count: int = 1
) -> NDArray[np.int64]:
    """Return how many labels each labeller wrote at each node or below it [labellers, nodes]."""
    who = np.zeros_like(labels) if labellers is None else labellers
    counts = np.bincount(who * len(taxonomy) + labels, minlength=count * len(taxonomy))
    return taxonomy.sums_below(counts.reshape(count, len(taxonomy)))


def written(taxonomy: Taxonomy, stops: Floats) -> Floats:
    """Return T [leaves, depths] of one labeller from its ``stops`` [nodes]."""
    path = taxonomy.ancestor_table[taxonomy.leaves]  # [leaves, depths], -1 below the leaf
    passed = np.where(path < 0, 0.0, 1.0 - stops[path])  # nothing passes below the leaf
    below = np.concatenate([path[:, 1:], np.full((len(path), 1), -1)], axis=1)
    stopping = np.where(below < 0, 1.0, stops[below])
    return np.asarray(np.cumprod(passed, axis=1) * stopping)


def children_of(taxonomy: Taxonomy, labels: Ints) -> Ints:
    """Return the children of each label [labels, most children], filled up with 0."""
    order, starts = taxonomy.by_parent
    counts = taxonomy.child_counts[labels]
    place = np.arange(max(1, int(counts.max(initial=0))))
    padded = np.concatenate([order, np.zeros(len(place), order.dtype)])
    found = padded[starts[labels][:, None] + place]
    return np.where(place < counts[:, None], found, 0).astype(np.int64)


# -- EM --------------------------------------------------------------------------------------------


def stop_shares(model: LabellerModel, evidence: Evidence) -> Floats:
    """E-step: return how likely each child is the one an image belongs to [images, most children].

    Zero for a label that its labeller cannot have written: it says nothing about the labeller.
    """
    weights = evidence.probabilities * model.stops[evidence.labellers[:, None], evidence.children]
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weights, total, out=np.zeros_like(weights), where=total > 0))


def maximised(
    model: LabellerModel, evidence: Evidence, shares: Floats, prior: tuple[Floats, Floats]
) -> LabellerModel:
    """M-step: return the model with the laziness that explains the shares best.

    ``prior`` are early stops and labels of known leaves, per labeller, added to those seen.
    """
    stopped, passed = _counted(model, evidence, shares)
    laziness = (stopped + prior[0]) / np.maximum(stopped + passed + prior[1], 1e-12)
    return replace(model, laziness=np.minimum(laziness, _MOST))


def log_likelihood(model: LabellerModel, evidence: Evidence) -> float:
    """Return the log-likelihood of all labels under the model, but for constants.

    Labels that are impossible whatever the laziness do not enter.
    """
    stops = model.stops
    weights = evidence.probabilities * stops[evidence.labellers[:, None], evidence.children]
    total = weights.sum(axis=1)
    possible = stops < 1.0
    passing = evidence.passes[possible] * np.log1p(-stops[possible])
    return float(np.log(total[total > 0]).sum() + passing.sum())


def learned(model: LabellerModel, evidence: Evidence) -> LabellerModel:
    """Return the model that explains the labels of a site best: EM until it rests.

    Where a site has several labellers, each is drawn towards the estimate for all of them.
    """
    count = len(model.known)
    everyone = np.full(count, _PRIOR[0]), np.full(count, _PRIOR[1])
    model = replace(model, laziness=np.full(count, _START))
    if count == 1:
        return _converged(model, evidence, everyone)
    pooled = _converged(model, evidence, everyone, together=True)
    own = pooled.laziness * _OWN_WEIGHT, np.full(count, _OWN_WEIGHT)
    return _converged(pooled, evidence, own)


def _converged(
    model: LabellerModel, evidence: Evidence, prior: tuple[Floats, Floats], together: bool = False
) -> LabellerModel:
    for _ in range(_STEPS):
        before, shares = model, stop_shares(model, evidence)
        if together:
            stopped, passed = (counts.sum() for counts in _counted(model, evidence, shares))
            rate = (stopped + prior[0][0]) / (stopped + passed + prior[1][0])
            model = replace(model, laziness=np.full(len(model.known), min(rate, _MOST)))
        else:
            model = maximised(model, evidence, shares, prior)
        if np.abs(model.laziness - before.laziness).max() < _CLOSE:
            break
    return model


def _counted(model: LabellerModel, evidence: Evidence, shares: Floats) -> tuple[Floats, Floats]:
    """Return how often known leaves were written early and in full, per labeller."""
    nodes = len(model.taxonomy)
    leaves = model.known & (model.taxonomy.child_counts == 0)
    place = evidence.labellers[:, None] * nodes + evidence.children
    found = np.bincount(place.ravel(), weights=shares.ravel(), minlength=leaves.size)
    stopped = np.where(leaves, found.reshape(leaves.shape), 0.0)
    return stopped.sum(axis=1), np.where(leaves, evidence.passes, 0.0).sum(axis=1)

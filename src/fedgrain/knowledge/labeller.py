"""How labellers write: what they know, and how often they stop early (method, section 11).

On the way down to a class a labeller stops before node c with probability ``stops[c]``, and writes
the node it has reached. So the only thing hidden about an image labelled y is the child of y it
belongs to. :mod:`fedgrain.knowledge.labeller_em` learns all this from labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy.tree import BoolArray, Taxonomy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LABELS_TO_KNOW = 2  # one stray label is not knowledge


@dataclass(frozen=True, eq=False)
class LabellerModel:
    """How each labeller of a site writes: T of the method, section 11.

    Before a node it does not know a labeller always stops; before one it knows, sometimes.
    """

    taxonomy: Taxonomy  # H
    knows: Floats  # [labellers, nodes], the probability that it knows the node
    lazy: Floats  # [labellers, nodes], how often it stops before the node if it knows it

    @property
    def stops(self) -> Floats:
        """The probability to stop before each node, at its parent: [labellers, nodes]."""
        stops = 1.0 - self.knows * (1.0 - self.lazy)
        stops[:, 0] = 0.0  # everyone is past the root
        return stops

    @property
    def known(self) -> BoolArray:
        """The nodes each labeller seems to know [labellers, nodes], closed upwards."""
        known = self.knows > 0.5
        known[:, 0] = True
        return self.taxonomy.close_upwards(known)

    def with_laziness(self, factor: float) -> LabellerModel:
        """Return the same labellers, as lazy as they are times ``factor``."""
        return replace(self, lazy=self.lazy * factor)

    def writes(self, labeller: int) -> Floats:
        """Return T [leaves, depths]: how often a leaf's ancestor at each depth is written for it.

        The last entry of a leaf is its own depth; below it there is nothing to write.
        """
        return written(self.taxonomy, self.stops[labeller])


def labeller_model(taxonomy: Taxonomy, known: BoolArray, laziness: float = 0.0) -> LabellerModel:
    """Return labellers of given knowledge [labellers, nodes] who write known leaves early."""
    lazy = np.where(taxonomy.child_counts == 0, laziness, 0.0)
    return LabellerModel(taxonomy, known.astype(np.float64), np.tile(lazy, (len(known), 1)))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the labellers of a site wrote, and what the model sees in the images they left open.

    ``probabilities`` are those of the label's children by the model. They need not sum to 1.
    """

    passes: Floats  # [labellers, nodes], how many labels are at the node or below it
    asked: BoolArray  # [labellers, nodes], the nodes it is about
    labellers: Ints  # [images], who stopped
    children: Ints  # [images, most children], of the label; 0 where there are fewer
    probabilities: Floats  # [images, most children], 0 where there are fewer


def gathered(
    taxonomy: Taxonomy, labels: Ints, labellers: Ints | None, count: int, probabilities: Floats
) -> Evidence:
    """Return the evidence in all labels of a site's ``count`` labellers.

    ``probabilities`` [coarse labels, most children] are those of :func:`children_of` the labels
    that are not leaves, in order.
    """
    who = np.zeros_like(labels) if labellers is None else labellers
    coarse = np.flatnonzero(taxonomy.child_counts[labels] > 0)
    passes = label_counts(taxonomy, labels, labellers, count).astype(np.float64)
    asked = passes[:, np.maximum(taxonomy.parents, 0)] > 0
    asked[:, 0] = False
    children = children_of(taxonomy, labels[coarse])
    # fewer columns where the labels with most children are not among these
    return Evidence(passes, asked, who[coarse], children, probabilities[:, : children.shape[1]])


def inferred_known(
    taxonomy: Taxonomy, labels: Ints, labellers: Ints | None = None, count: int = 1
) -> BoolArray:
    """Return the nodes each labeller wrote, or wrote something below of, twice: [labellers, nodes].

    The root is always one.
    """
    known = label_counts(taxonomy, labels, labellers, count) >= _LABELS_TO_KNOW
    known[:, 0] = True
    return known


def label_counts(
    taxonomy: Taxonomy, labels: Ints, labellers: Ints | None = None, count: int = 1
) -> Ints:
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

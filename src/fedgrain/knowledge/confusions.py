"""Labellers who also write a sibling of what they mean (method, section 11).

With probability delta the node a labeller means is replaced by one of its siblings, all alike:
T'(y | l) = (1 - delta) T(y | l) + delta * the mean of T(s | l) over the siblings s of y. Delta is
one number for a site, learned by EM together with how often each node was really meant.
"""

from __future__ import annotations

import numpy as np

from fedgrain.knowledge.correspondence import Correspondence, Floats, Ints
from fedgrain.taxonomy.tree import Taxonomy

_FIRST = 0.02
_WRONG, _LABELS = 1.0, 50.0  # a site starts with one wrong label in fifty
_STEPS = 50
_CLOSE = 1e-5


def meant(taxonomy: Taxonomy, writes: Floats, nodes: Ints) -> Floats:
    """Return T [nodes, leaves] of the chosen nodes, 0 for leaves that are not under a node."""
    path = taxonomy.ancestor_table[taxonomy.leaves]  # [leaves, depths]
    depth = taxonomy.depth[nodes]
    under = path[:, depth] == nodes  # [leaves, nodes]
    return np.asarray(np.where(under, writes[:, depth], 0.0).T)


def among_siblings(taxonomy: Taxonomy, nodes: Ints) -> Floats:
    """Return [nodes, all nodes]: how a confusion falls on the siblings; a lone child has none."""
    siblings = (taxonomy.parents[nodes][:, None] == taxonomy.parents) & (nodes != 0)[:, None]
    siblings[np.arange(len(nodes)), nodes] = False
    return np.asarray(siblings / np.maximum(siblings.sum(axis=1, keepdims=True), 1))


def with_confusions(
    taxonomy: Taxonomy, writes: Floats, nodes: Ints, share: float
) -> Correspondence:
    """Return T' of the chosen labels, for a labeller with T ``writes`` [leaves, depths]."""
    everything = np.arange(len(taxonomy), dtype=np.int64)
    falls = among_siblings(taxonomy, nodes)
    of_siblings = falls @ meant(taxonomy, writes, everything)
    alone = falls.sum(axis=1, keepdims=True) == 0
    own = meant(taxonomy, writes, nodes)
    return Correspondence(nodes, np.where(alone, own, (1 - share) * own + share * of_siblings))


def confusion_share(own: Floats, of_siblings: Floats) -> float:
    """Return delta by EM, from the probabilities [images] of a label, meant and as a confusion."""
    possible = own + of_siblings > 0
    own, of_siblings = own[possible], of_siblings[possible]
    share = _FIRST
    for _ in range(_STEPS):
        before = share
        wrong = wrongness(own, of_siblings, share)
        share = float((wrong.sum() + _WRONG) / (len(wrong) + _LABELS))
        if abs(share - before) < _CLOSE:
            break
    return share


def wrongness(own: Floats, of_siblings: Floats, share: float) -> Floats:
    """Return how likely each label [images] is a confusion."""
    confused = share * of_siblings
    total = (1.0 - share) * own + confused
    return np.asarray(np.divide(confused, total, out=np.zeros_like(total), where=total > 0))


def meant_counts(
    taxonomy: Taxonomy, writes: Floats, labels: Ints, leaf_probs: Floats
) -> tuple[float, Floats]:
    """Return delta, and how often each node was meant [nodes], given T and P [images, leaves]."""
    nodes, places = np.unique(labels, return_inverse=True)
    everything = np.arange(len(taxonomy), dtype=np.int64)
    likely = leaf_probs @ meant(taxonomy, writes, everything).T  # [images, nodes]
    siblings = among_siblings(taxonomy, nodes)
    falls = siblings[places] * likely  # [images, nodes]
    own = likely[np.arange(len(labels)), labels]
    of_siblings = falls.sum(axis=1)
    can_be_wrong = siblings[places].sum(axis=1) > 0
    share = confusion_share(own[can_be_wrong], of_siblings[can_be_wrong])
    wrong = np.where(can_be_wrong, wrongness(own, of_siblings, share), 0.0)
    counts = np.bincount(labels, weights=1.0 - wrong, minlength=len(taxonomy))
    scale = np.divide(wrong, of_siblings, out=np.zeros_like(wrong), where=of_siblings > 0)
    return share, np.asarray(counts + scale @ falls)

"""What a model proposes below a coarse label, how sure it is, and which guarantee that meets.

A label leaves some leaves open, its *candidates*. Their probabilities are divided by their sum, so
a proposal always lies below the label. Candidates may have weights: how often this labeller writes
this label for that leaf (method, sections 6 and 11).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy.tree import Taxonomy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Chains:
    """Nodes from the root down whose guarantees are known, for each image.

    Every node contains the truth with at least its guarantee, over images like those it was
    calibrated on.
    """

    nodes: Ints  # [images, depths], -1 below the last
    guarantees: Floats  # [images, depths], falling towards the leaf

    def __getitem__(self, chosen: Ints) -> Chains:
        return Chains(self.nodes[chosen], self.guarantees[chosen])


@dataclass(frozen=True, eq=False)
class Proposals:
    """A finer label for each image."""

    nodes: Ints  # [images], nodes of H
    probabilities: Floats  # [images], among the candidates
    guarantees: Floats  # [images], 0 where none is met
    entropies: Floats  # [images], bits that the exact class would give
    taken: Bools  # [images], as probable as asked


def propose(
    tree: Taxonomy,
    top: int,
    weights: Floats,
    leaf_log_probs: NDArray[np.floating],
    accept: float | None = None,
    chains: Chains | None = None,
) -> Proposals:
    """Propose a node below ``top`` for images that carry the same label.

    ``weights`` [leaves under top] are those of the candidates, 0 for other leaves;
    ``leaf_log_probs`` is [images, leaves under top]. With ``accept`` (above 0.5) a proposal is the
    most specific node that is at least so probable, and is taken; where there is none, and without
    ``accept``, it is the likeliest leaf.
    """
    shares = candidate_shares(weights, leaf_log_probs)
    first = tree.leaf_ranges[0]
    begin = int(first[top])
    nodes = tree.leaves[begin + shares.argmax(axis=1)].astype(np.int64)
    probabilities = shares.max(axis=1)
    taken = np.zeros(len(nodes), np.bool_)
    if accept is not None:
        deepest, sure = _deepest_sure(tree, top, shares, accept)
        taken = deepest != top
        nodes = np.where(taken, deepest, nodes)
        probabilities = np.where(taken, sure, probabilities)
    guarantees = np.zeros(len(nodes))
    if chains is not None:
        guarantees = _guarantees(tree, top, weights > 0, nodes, chains)
    return Proposals(nodes, probabilities, guarantees, entropy(shares), taken)


def candidate_shares(weights: Floats, leaf_log_probs: NDArray[np.floating]) -> Floats:
    """Return the probability of each candidate, given that the truth is one of them."""
    with np.errstate(divide="ignore"):
        scores = leaf_log_probs.astype(np.float64) + np.log(weights)
        impossible = np.isneginf(scores.max(axis=1))  # every candidate has probability 0
        scores[impossible] = np.log(weights)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def entropy(shares: Floats) -> Floats:
    """Return the entropy of each row, in bits."""
    return np.asarray(-(shares * np.log2(np.maximum(shares, 1e-300))).sum(axis=1))


def _deepest_sure(tree: Taxonomy, top: int, shares: Floats, accept: float) -> tuple[Ints, Floats]:
    """Return the deepest node of at least this probability; above 0.5 they lie on one path."""
    below = np.arange(top, int(tree.subtree_end[top]))
    first, end = tree.leaf_ranges
    running = np.concatenate([np.zeros((len(shares), 1)), np.cumsum(shares, axis=1)], axis=1)
    sums = running[:, end[below] - first[top]] - running[:, first[below] - first[top]]
    sums[:, 0] = 1.0
    last = np.where(sums >= accept, below, -1).max(axis=1)  # depth first: the largest is deepest
    return last, sums[np.arange(len(last)), last - top]


def _guarantees(tree: Taxonomy, top: int, candidates: Bools, nodes: Ints, chains: Chains) -> Floats:
    """Return the best guarantee of a chain's node whose candidates all lie below the proposal.

    The label is true, so cutting a node that contains the truth down to the candidates keeps the
    guarantee. A node without candidates contradicts the label and promises nothing.
    """
    first, end = (part.astype(np.int64) for part in tree.leaf_ranges)
    counts = np.zeros(len(tree.leaves) + 1, np.int64)  # candidates before each leaf
    begin = int(first[top])
    counts[begin + 1 : begin + 1 + len(candidates)] = np.cumsum(candidates)
    counts[begin + 1 + len(candidates) :] = counts[begin + len(candidates)]
    best = np.zeros(len(nodes))
    for depth in range(chains.nodes.shape[1]):
        there = chains.nodes[:, depth] >= 0
        node = np.maximum(chains.nodes[:, depth], 0)
        inside = counts[end[node]] - counts[first[node]]
        low, high = np.maximum(first[node], first[nodes]), np.minimum(end[node], end[nodes])
        shared = counts[np.maximum(high, low)] - counts[low]
        meets = there & (inside > 0) & (shared == inside)
        best = np.where(meets, np.maximum(best, chains.guarantees[:, depth]), best)
    return best

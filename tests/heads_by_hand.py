"""The formulas of section 6 written out node by node, and what the tests of heads share."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

from fedgrain.heads import Head
from fedgrain.taxonomy import Taxonomy

QUICK = settings(max_examples=25, deadline=None)
SEEDS = st.integers(0, 10**6)


def logits_for(
    head: Head, batch: int, seed: int, scale: float = 1.5, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """Random logits of a head."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, head.num_outputs, generator=generator, dtype=dtype) * scale


def random_knowledge(taxonomy: Taxonomy, seed: int) -> np.ndarray:
    """A random mask that is closed upwards."""
    rng = np.random.default_rng(seed)
    known = rng.random(len(taxonomy)) < 0.6
    known[0] = True
    for node in range(1, len(taxonomy)):
        known[node] &= known[taxonomy.parents[node]]
    return known


class ByHand:
    """Section 6 for one sample, from sets of nodes and exponentials, in float64."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.tree = taxonomy
        self.nodes = list(range(len(taxonomy)))
        self.above = {v: [int(a) for a in taxonomy.path(v)] for v in self.nodes}
        self.under = {v: [u for u in self.nodes if v in self.above[u]] for v in self.nodes}
        self.leaves = [int(leaf) for leaf in taxonomy.leaves]

    def leaf_probs(self, name: str, theta: list[float]) -> dict[int, float]:
        if name == "flat-softmax":
            score = {leaf: theta[j] for j, leaf in enumerate(self.leaves)}
        elif name == "ps-softmax":
            score = {leaf: sum(theta[a - 1] for a in self.above[leaf][1:]) for leaf in self.leaves}
        else:
            probs = self.probs(name, theta)
            return {leaf: probs[leaf] for leaf in self.leaves}
        total = sum(math.exp(s) for s in score.values())
        return {leaf: math.exp(s) / total for leaf, s in score.items()}

    def conditional(self, theta: list[float], v: int) -> float:
        siblings = [int(c) for c in self.tree.children(int(self.tree.parents[v]))]
        return math.exp(theta[v - 1]) / sum(math.exp(theta[c - 1]) for c in siblings)

    def probs(self, name: str, theta: list[float]) -> list[float]:
        if name in ("flat-softmax", "ps-softmax"):
            leaf = self.leaf_probs(name, theta)
            return [sum(leaf[u] for u in self.under[v] if u in leaf) for v in self.nodes]
        if name == "cond-sigmoid":
            return [
                math.prod(1 / (1 + math.exp(-theta[a - 1])) for a in self.above[v][1:])
                for v in self.nodes
            ]
        if name == "cond-softmax":
            return [
                math.prod(self.conditional(theta, a) for a in self.above[v][1:]) for v in self.nodes
            ]
        total = sum(math.exp(t) for t in theta)
        return [sum(math.exp(theta[u]) for u in self.under[v]) / total for v in self.nodes]

    def loss(self, name: str, theta: list[float], y: int) -> float:
        path = self.above[y][1:]
        if name in ("flat-softmax", "ps-softmax"):
            return -math.log(self.leaf_probs(name, theta)[y]) if y in self.leaves else 0.0
        if name == "cond-sigmoid":
            total = 0.0
            for u in self.nodes[1:]:
                if int(self.tree.parents[u]) in self.above[y]:
                    p = 1 / (1 + math.exp(-theta[u - 1]))
                    total -= math.log(p if u in self.above[y] else 1 - p)
            return total
        if name == "cond-softmax":
            return -sum(math.log(self.conditional(theta, a)) for a in path)
        if name == "softmax-descendant":
            total = 0.0
            for a in path:
                other = [u for u in self.nodes if u not in self.above[a] and u not in self.under[a]]
                mass = math.exp(theta[a]) + sum(math.exp(theta[u]) for u in other)
                leaves = sum(u in self.leaves for u in self.under[a])
                total += (math.log(mass) - theta[a]) / leaves
            return total
        assert name == "softmax-margin"
        return -theta[y] + math.log(
            sum(math.exp(theta[u] + 5.0 * (u not in self.above[y])) for u in self.nodes)
        )

    def projected(self, known: np.ndarray, leaf: int) -> int:
        return [a for a in self.above[leaf] if known[a]][-1]

    def projection(
        self, name: str, theta: list[float], y: int, known: np.ndarray, laziness: float
    ) -> float:
        leaf = self.leaf_probs(name, theta)
        below = sum(leaf[v] for v in self.leaves if y in self.above[v])
        stands_for = [v for v in self.leaves if self.projected(known, v) == y]
        if not stands_for:
            return -math.log(below)
        return -math.log((1 - laziness) * sum(leaf[v] for v in stands_for) + laziness * below)

"""Algorithm 1: local label hierarchies by the probabilistic relational neighbour classifier.

Macskassy and Provost, "A simple relational classifier" (2003), as the paper adapts it: a client
that knows enough of a node's neighbourhood knows the node too (method, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import KnowledgeError
from fedgrain.knowledge.expertise import draw_known_leaves
from fedgrain.knowledge.knowledge import Knowledge, numbered_clients
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy.tree import Taxonomy

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.signedinteger]

GRAPHS = ("complete", "tree")
_CONVERGED = 1e-6  # largest change of a probability in a sweep
BLOCK_CELLS = 2**22  # similarities worked on at once


def relational_neighbours(
    full_taxonomy: Taxonomy,
    clients: int,
    alpha: float,
    seed: int,
    graph: str = "complete",
    expertise: str = "random",
) -> Knowledge:
    """Generate what each client knows of H_full (Algorithm 1).

    ``graph`` says who is a neighbour: every other node (the paper) or parent and children only.
    ``expertise`` says which leaves a client knows: drawn evenly (the paper) or related ones.

    >>> tree = Taxonomy.from_edges([("animal", "bird"), ("animal", "cat"), ("bird", "kite")])
    >>> relational_neighbours(tree, clients=2, alpha=0.5, seed=1).known.sum(axis=1).tolist()
    [3, 3]
    """
    known_leaves = draw_known_leaves(full_taxonomy, clients, alpha, seed, expertise)
    neighbours = _neighbours(full_taxonomy, graph)
    known = full_taxonomy.on_paths_to_leaves(known_leaves)  # [clients, nodes]
    for client in range(clients):
        generator = numpy_generator(seed, "knowledge propagation", client)
        probability = neighbours.propagate(known[client], generator)
        known[client] = probability >= 0.5
    return Knowledge(full_taxonomy, full_taxonomy.close_upwards(known), numbered_clients(clients))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The weighted graph of Algorithm 1, shared by all clients.

    Only internal nodes are ever unlabeled, so only their edges count. They are weighed when they
    are needed, a block of nodes at a time: a tree of 16,000 nodes has 100 million of them.
    """

    taxonomy: Taxonomy
    graph: str
    totals: FloatArray  # [nodes]: sum_j W_ij of internal node i

    @classmethod
    def of(cls, taxonomy: Taxonomy, graph: str = "complete") -> Neighbours:
        """Weigh the edges of the complete graph or of the tree by Wu-Palmer similarity W."""
        if graph not in GRAPHS:
            raise KnowledgeError(f"there is no graph {graph!r}; choose one of {', '.join(GRAPHS)}")
        neighbours = cls(taxonomy, graph, np.ones(len(taxonomy)))
        everyone = np.arange(len(taxonomy), dtype=np.int32)
        for block in _blocks(taxonomy.internal, len(taxonomy)):
            neighbours.totals[block] = neighbours.shares(block, everyone).sum(axis=1)
        return neighbours

    def shares(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return W_ij / sum_j W_ij of internal nodes i in ``rows`` [rows, columns], 0 on itself."""
        weights = self.taxonomy.wu_palmer_of(rows, columns, root_depth=1)
        if self.graph == "tree":
            parents = self.taxonomy.parents
            weights *= (parents[columns] == rows[:, None]) | (parents[rows][:, None] == columns)
        weights[rows[:, None] == columns] = 0.0
        return np.asarray(weights / self.totals[rows][:, None])

    def propagate(self, known: BoolArray, generator: np.random.Generator) -> FloatArray:
        """Return every node's probability of being known [nodes], given the nodes known for sure.

        Leaves that are not known are unknown (0); internal nodes that are not known are unlabeled:
        they start at 0.5 and are updated one after another, in a fresh random order each sweep.
        """
        probability = known.astype(np.float64)
        internal = self.taxonomy.internal
        unlabeled = internal[~known[internal]]
        if not unlabeled.size:
            return probability
        sure = np.flatnonzero(known).astype(np.int32)
        fixed = np.empty(len(unlabeled))  # the contribution of the labeled neighbours
        shares = np.empty((len(unlabeled), len(unlabeled)))
        for numbers in _blocks(np.arange(len(unlabeled)), len(known)):
            fixed[numbers] = self.shares(unlabeled[numbers], sure).sum(axis=1)
            shares[numbers] = self.shares(unlabeled[numbers], unlabeled)
        now = np.full(len(unlabeled), 0.5)
        share_rows = list(shares)
        change = np.inf
        while change >= _CONVERGED:
            before = now.copy()
            for i in generator.permutation(len(unlabeled)).tolist():
                now[i] = fixed[i] + share_rows[i].dot(now)
            change = np.abs(now - before).max()
        probability[unlabeled] = now
        return probability


@lru_cache(maxsize=1)
def _neighbours(taxonomy: Taxonomy, graph: str) -> Neighbours:
    """Return the graph; the last one is cached, because figures over alpha use it repeatedly."""
    return Neighbours.of(taxonomy, graph)


def _blocks(numbers: IntArray, width: int) -> list[IntArray]:
    """Cut numbers into runs whose tables [run, width] stay small."""
    size = max(1, BLOCK_CELLS // width)
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]

"""Algorithm 1: local label hierarchies by the probabilistic relational neighbour classifier.

Macskassy and Provost, "A simple relational classifier" (2003), as the paper adapts it: a client
that knows enough of a node's neighbourhood knows the node too (method, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import KnowledgeError
from fedgrain.knowledge.closure import close_upwards, paths_to_leaves
from fedgrain.knowledge.expertise import draw_known_leaves
from fedgrain.knowledge.knowledge import Knowledge, numbered_clients
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy.tree import Taxonomy

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

GRAPHS = ("complete", "tree")
CONVERGED = 1e-6  # largest change of a probability in a sweep


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
    neighbours = Neighbours.of(full_taxonomy, graph)
    known = paths_to_leaves(full_taxonomy, known_leaves)  # [clients, nodes]
    for client in range(clients):
        generator = numpy_generator(seed, "knowledge propagation", client)
        probability = neighbours.propagate(known[client], generator)
        known[client] = probability >= 0.5
    return Knowledge(full_taxonomy, close_upwards(full_taxonomy, known), numbered_clients(clients))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The weighted graph of Algorithm 1, shared by all clients.

    Only internal nodes are ever unlabeled, so only their edges are kept.
    """

    internal: NDArray[np.int32]  # [internal]
    shares: FloatArray  # [nodes, internal]: W_ij / sum_j W_ij of internal node i, 0 on itself

    @classmethod
    def of(cls, taxonomy: Taxonomy, graph: str = "complete") -> Neighbours:
        """Weigh the edges of the complete graph or of the tree by Wu-Palmer similarity W."""
        if graph not in GRAPHS:
            raise KnowledgeError(f"there is no graph {graph!r}; choose one of {', '.join(GRAPHS)}")
        internal = taxonomy.internal
        weights = taxonomy.wu_palmer(root_depth=1)[:, internal]  # [nodes, internal]
        if graph == "tree":
            nodes = np.arange(len(taxonomy))[:, None]
            below = taxonomy.parents[:, None] == internal
            weights *= below | (taxonomy.parents[internal] == nodes)
        weights[internal, np.arange(len(internal))] = 0.0
        return cls(internal, weights / weights.sum(axis=0))

    def propagate(self, known: BoolArray, generator: np.random.Generator) -> FloatArray:
        """Return every node's probability to be known [nodes], given the nodes known for sure.

        Leaves that are not known are unknown (0); internal nodes that are not known are unlabeled:
        they start at 0.5 and are updated one after another, in a fresh random order each sweep.
        """
        probability = known.astype(np.float64)
        rows = np.flatnonzero(~known[self.internal])
        unlabeled = self.internal[rows]
        if not unlabeled.size:
            return probability
        fixed = self.shares[known][:, rows].sum(axis=0)  # what the labeled neighbours say
        share_rows = list(np.ascontiguousarray(self.shares[np.ix_(unlabeled, rows)].T))
        now = np.full(len(unlabeled), 0.5)
        change = np.inf
        while change >= CONVERGED:
            before = now.copy()
            for i in generator.permutation(len(unlabeled)).tolist():
                now[i] = fixed[i] + share_rows[i].dot(now)
            change = np.abs(now - before).max()
        probability[unlabeled] = now
        return probability

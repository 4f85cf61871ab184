"""Which label a client writes for a class, and which classes its labels stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import FedgrainError, KnowledgeError
from fedgrain.knowledge.knowledge import Knowledge
from fedgrain.knowledge.known_nodes import check_known_nodes
from fedgrain.taxonomy.tree import Taxonomy

IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Projection:
    """proj_k of the method, section 1: every node to the deepest known node on its path in H.

    Rows are those of :class:`Knowledge`: clients, or annotators where knowledge is given per
    annotator.
    """

    taxonomy: Taxonomy  # H, the coarsened tree
    of_nodes: IntArray  # [rows, nodes]: a node of H to the label written for it

    @property
    def labels(self) -> IntArray:
        """The label each row writes for each leaf, as a node of H: [rows, leaves]."""
        return self.of_nodes[:, self.taxonomy.leaves]

    @property
    def known(self) -> BoolArray:
        """The nodes each row knows, those that are their own label: [rows, nodes]."""
        return np.asarray(self.of_nodes == np.arange(len(self.taxonomy)))

    @property
    def written(self) -> BoolArray:
        """The nodes each row writes for some leaf; no other label of its makes sense."""
        marks = np.zeros(self.of_nodes.shape, dtype=np.bool_)
        np.put_along_axis(marks, self.labels, True, axis=1)
        return marks

    def stands_for(self, row: int) -> BoolArray:
        """Return R_k(y) of the method, section 6: mask [nodes, leaves] of the leaves of each label.

        The row of a node that is never written as a label is empty.
        """
        nodes = np.arange(len(self.taxonomy))
        return np.asarray(nodes[:, None] == self.labels[row][None, :])


def project(taxonomy: Taxonomy, knowledge: Knowledge) -> Projection:
    """Project every node of the coarsened tree for every row of the knowledge."""
    return project_known(taxonomy, knowledge.on(taxonomy))


def project_known(
    taxonomy: Taxonomy, known: BoolArray, error: type[FedgrainError] = KnowledgeError
) -> Projection:
    """Project every node for masks of known nodes of the same tree [rows, nodes]."""
    check_known_nodes(taxonomy, known, error)
    of_nodes = taxonomy.nearest(known)
    of_nodes.flags.writeable = False
    return Projection(taxonomy, of_nodes)

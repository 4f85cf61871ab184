"""Statistics of generated knowledge: the figures of the paper's property plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.knowledge.knowledge import Knowledge
from fedgrain.knowledge.projection import project
from fedgrain.taxonomy.tree import Taxonomy


@dataclass(frozen=True, eq=False)
class KnowledgeStatistics:
    """Per row of the knowledge (client, or annotator)."""

    names: tuple[str, ...]
    known_nodes: NDArray[np.int64]  # [rows], nodes of H_full, root included
    known_leaves: NDArray[np.int64]  # [rows]
    leaf_labelled: NDArray[np.float64]  # [rows], share of the leaf classes that can be named
    mean_similarity: NDArray[np.float64]  # [rows], nan where fewer than two nodes are known
    labelled_at_depth: NDArray[np.float64]  # [rows, depths of H], share of leaves; sums to 1

    def as_objects(self) -> list[dict[str, Any]]:
        """Return one JSON-ready object per row."""
        return [
            {
                "name": name,
                "known_nodes": int(self.known_nodes[row]),
                "known_leaves": int(self.known_leaves[row]),
                "leaf_labelled": round(float(self.leaf_labelled[row]), 6),
                "mean_similarity": None
                if np.isnan(self.mean_similarity[row])
                else round(float(self.mean_similarity[row]), 6),
                "labelled_at_depth": [round(float(s), 6) for s in self.labelled_at_depth[row]],
            }
            for row, name in enumerate(self.names)
        ]


def knowledge_statistics(knowledge: Knowledge, taxonomy: Taxonomy) -> KnowledgeStatistics:
    """Measure the knowledge; ``taxonomy`` is H, whose depths the labels are counted at."""
    full = knowledge.taxonomy
    known_nodes = knowledge.known.sum(axis=1)
    known_leaves = knowledge.known[:, full.leaves].sum(axis=1)
    depths = taxonomy.depth[project(taxonomy, knowledge).labels]  # [rows, leaves]
    at_depth = [(depths == depth).mean(axis=1) for depth in range(int(taxonomy.depth.max()) + 1)]
    return KnowledgeStatistics(
        names=knowledge.row_names,
        known_nodes=known_nodes,
        known_leaves=known_leaves,
        leaf_labelled=known_leaves / len(full.leaves),
        mean_similarity=mean_similarity(knowledge),
        labelled_at_depth=np.stack(at_depth, axis=1),
    )


def mean_similarity(knowledge: Knowledge) -> NDArray[np.float64]:
    """Mean Wu-Palmer similarity W over pairs of different known nodes of H_full, per row.

    Two nodes at depths d and e have d(lca) common ancestors-or-selves, and each of these adds
    2 / (d + e) to their similarity: so a count per depth below every node is enough, and the pairs
    are never listed.
    """
    taxonomy = knowledge.taxonomy
    count = knowledge.known.sum(axis=1)
    mean = np.full(len(count), np.nan)
    counted = np.arange(1.0, int(taxonomy.depth.max()) + 2)
    closeness = 2.0 / (counted[:, None] + counted)  # [depth, depth]
    for row in np.flatnonzero(count > 1):
        known = np.flatnonzero(knowledge.known[row])  # their ancestors are known too
        up_to = np.zeros((len(known) + 1, len(counted)))
        up_to[np.arange(1, len(up_to)), taxonomy.depth[known]] = 1.0
        up_to = up_to.cumsum(axis=0)
        below = up_to[np.searchsorted(known, taxonomy.subtree_end[known])] - up_to[:-1]
        total = np.einsum("nd,nd->", below @ closeness, below) - count[row]  # itself: W = 1
        mean[row] = total / (count[row] * (count[row] - 1))
    return mean

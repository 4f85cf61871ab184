"""The two simple generators the paper argues against, for comparison with Algorithm 1.

They draw the same leaves as :func:`relational_neighbours` for the same seed and differ only in
the internal nodes: Algorithm 1 always lies between them.
"""

from __future__ import annotations

from dataclasses import replace

from fedgrain.knowledge.expertise import draw_known_leaves
from fedgrain.knowledge.knowledge import Knowledge, numbered_clients
from fedgrain.taxonomy.tree import Taxonomy


def hidden_leaves(
    full_taxonomy: Taxonomy, clients: int, alpha: float, seed: int, expertise: str = "random"
) -> Knowledge:
    """Hide leaves only: every client knows all internal nodes (expands knowledge the most)."""
    least = known_paths_only(full_taxonomy, clients, alpha, seed, expertise)
    known = least.known.copy()
    known[:, full_taxonomy.internal] = True
    return replace(least, known=known)


def known_paths_only(
    full_taxonomy: Taxonomy, clients: int, alpha: float, seed: int, expertise: str = "random"
) -> Knowledge:
    """Know only the ancestors of known leaves (contracts knowledge the most)."""
    leaves = draw_known_leaves(full_taxonomy, clients, alpha, seed, expertise)
    return Knowledge(
        full_taxonomy, full_taxonomy.on_paths_to_leaves(leaves), numbered_clients(clients)
    )

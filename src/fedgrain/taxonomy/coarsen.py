"""WordNet-guided coarsening by silhouette score (the paper's Algorithm 2; method, section 4).

Every internal node u, children first, may replace any subset S of its internal children by their
children. The subset whose partition of the leaves has the best mean silhouette wins. Scoring a
subset needs no distances between pairs of leaves:

- the lowest common ancestor of leaves under different children of u is u, so the mean distance of a
  leaf to another cluster depends only on the depths of the leaf and of the cluster's leaves;
- a leaf's mean distance a to its own cluster depends only on the decision for its own child of u;
- its distance b to the nearest other cluster is a minimum over the other children of u, where each
  term depends only on that child's decision, and over the parts of its own child if expanded.

Depths count the root as 1 (W), so the distance of two leaves i, j whose lowest common ancestor has
depth m is 1 - 2 m / (d_i + d_j). ``branch_tables`` holds the tables of the nodes, ``silhouette``
computes scores and bounds, and ``subsets`` chooses; bounds make most scores unnecessary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy.branch_tables import undecided
from fedgrain.taxonomy.edges import MAX_DEPTH, too_deep
from fedgrain.taxonomy.silhouette import Positions
from fedgrain.taxonomy.subsets import Choice, best_subset
from fedgrain.taxonomy.tree import Taxonomy

_SINGLETONS = ("cohesive", "neutral")


@dataclass(frozen=True)
class Decision:
    """What happened at one internal node: the children merged into it, and why."""

    node: str
    merged: tuple[str, ...]
    score: float | None  # None: nothing to score, the node is unchanged
    original_score: float | None
    exact: bool  # whether it is certainly the best subset; a search may miss it
    subsets: int | None = None  # after a search: how many subsets there are
    at_most: float | None = None  # after a search: no subset scores better than this


@dataclass(frozen=True)
class Coarsening:
    """The coarsened tree H, and the decision at every node that had a choice."""

    taxonomy: Taxonomy
    decisions: tuple[Decision, ...]

    @property
    def exact(self) -> bool:
        """Whether every decision is certainly the best over all subsets."""
        return not self.searched

    @property
    def searched(self) -> tuple[Decision, ...]:
        """The decisions that may not be the best: there were too many subsets to check all."""
        return tuple(decision for decision in self.decisions if not decision.exact)


def coarsen(taxonomy: Taxonomy, max_children: int, singletons: str = "cohesive") -> Coarsening:
    """Merge internal nodes that matter little into their parents; return tree and decisions.

    No node gets more than ``max_children`` children. With ``singletons="cohesive"`` a cluster of
    one leaf scores 1, and a leaf's mean distance to its own cluster includes the leaf itself. With
    ``singletons="neutral"``, Rousseeuw's textbook rule, a cluster of one leaf scores 0.
    """
    if max_children < 2:
        raise TaxonomyError(f"max_children must be at least 2, not {max_children}")
    if singletons not in _SINGLETONS:
        raise TaxonomyError(f"singletons must be {' or '.join(_SINGLETONS)}, not {singletons!r}")
    deepest = int(taxonomy.depth.max())
    if deepest > MAX_DEPTH:
        first = int((taxonomy.depth > MAX_DEPTH).argmax())
        raise TaxonomyError(too_deep(taxonomy.ids[first], deepest))
    if len(taxonomy) == 1:
        return Coarsening(taxonomy, ())
    branches = undecided(taxonomy, cohesive=singletons == "cohesive")
    kept = np.ones(len(taxonomy), dtype=np.bool_)
    decisions = []
    for u in range(len(branches.nodes) - 1, -1, -1):  # depth-first order reversed: children first
        children = branches.children[u]
        if not children:  # all its children are leaves
            branches.settle_leaves(u)
            continue
        candidates = branches.candidates(u, max_children)
        merged: Positions = ()
        if candidates.spare >= 0:
            choice = best_subset(candidates)
            merged = choice.positions
            removed = [branches.nodes[children[position]] for position in merged]
            if removed:
                kept[removed] = False
            node = taxonomy.ids[branches.nodes[u]]
            decisions.append(_decision(node, [taxonomy.ids[v] for v in removed], choice))
        branches.settle(u, candidates, merged)
    return Coarsening(taxonomy.keep(kept), tuple(decisions[::-1]))


def _decision(node: str, merged: list[str], choice: Choice) -> Decision:
    return Decision(
        node,
        tuple(merged),
        choice.score,
        choice.original_score,
        choice.exact,
        choice.subsets,
        choice.at_most,
    )

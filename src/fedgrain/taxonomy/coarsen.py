"""WordNet-guided coarsening by silhouette score (the paper's Algorithm 2; method, section 4).

Every internal node u, children first, may replace any subset S of its internal children by their
children; the subset whose partition of the leaves has the best mean silhouette wins. The scores of
all subsets factorise, so a subset touches no distance between leaves:

- leaves under different children of u meet in u, so the mean distance of a leaf to another cluster
  depends on the leaf's depth and the cluster's depths alone;
- a leaf's own mean distance a depends only on the decision for its own child of u;
- its distance b to the nearest other cluster is a minimum over the other children of u, each
  depending on that child's decision alone, and over the own child's parts if it is expanded.

Depths count the root as 1 throughout (W), so two leaves i, j that meet at depth m are
1 - 2 m / (d_i + d_j) apart. What is known of the nodes is kept in ``branch_tables``, scores are put
together in ``silhouette``, and ``subsets`` chooses; bounds spare it most of the scores.
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
    score: float | None  # None: no partition could be scored, the node stays as it is
    original_score: float | None
    exact: bool  # the best of all subsets, and not the end of a search
    subsets: int | None = None  # of a search: how many subsets there are
    at_most: float | None = None  # of a search: no subset scores better


@dataclass(frozen=True)
class Coarsening:
    """The coarsened tree H with the decision at every node that had a choice."""

    taxonomy: Taxonomy
    decisions: tuple[Decision, ...]

    @property
    def exact(self) -> bool:
        """Whether every decision is the best over all subsets, and not the end of a search."""
        return not self.searched

    @property
    def searched(self) -> tuple[Decision, ...]:
        """The decisions that may not be the best: too many subsets could have been."""
        return tuple(decision for decision in self.decisions if not decision.exact)


def coarsen(taxonomy: Taxonomy, max_children: int, singletons: str = "cohesive") -> Coarsening:
    """Merge negligible internal nodes into their parents, at most ``max_children`` children each.

    ``singletons="cohesive"``: a cluster of one leaf scores 1, and a leaf's own mean distance counts
    the leaf itself. ``singletons="neutral"`` is Rousseeuw's textbook rule: it scores 0.
    """
    if max_children < 2:
        raise TaxonomyError(f"max_children must be at least 2, not {max_children}")
    if singletons not in _SINGLETONS:
        raise TaxonomyError(f"singletons is one of {', '.join(_SINGLETONS)}, not {singletons!r}")
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
        if not children:  # but leaves
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

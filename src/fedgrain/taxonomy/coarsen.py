"""WordNet-guided coarsening by silhouette score (the paper's Algorithm 2; method, section 4).

Every internal node u, children first, may replace any subset S of its internal children by their
children; the subset whose partition of the leaves has the best mean silhouette wins. The scores of
all subsets factorise, so a subset touches no distance between leaves:

- leaves under different children of u meet in u, so the mean distance of a leaf to another cluster
  depends on the leaf's depth and the cluster's depths alone;
- a leaf's own mean distance a depends only on the decision for its own child of u;
- its distance b to the nearest other cluster is a minimum over the other children of u, each
  depending on that child's decision alone, and over the own child's parts if it is expanded.

Leaves that share all of this are counted as one kind. Depths count the root as 1 throughout (W),
so two leaves i, j that meet at depth m are 1 - 2 m / (d_i + d_j) apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from math import inf

import numpy as np

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy.families import Families, leaf_families
from fedgrain.taxonomy.subsets import Candidates, Form, best_subset, distances_to_others
from fedgrain.taxonomy.tree import Taxonomy

SINGLETONS = ("cohesive", "neutral")


@dataclass(frozen=True)
class Decision:
    """What happened at one internal node: the children merged into it, and why."""

    node: str
    merged: tuple[str, ...]
    score: float | None  # None: no partition could be scored, the node stays as it is
    original_score: float | None
    exact: bool


@dataclass(frozen=True)
class Coarsening:
    """The coarsened tree H with the decision at every node that had a choice."""

    taxonomy: Taxonomy
    decisions: tuple[Decision, ...]

    @property
    def exact(self) -> bool:
        """Whether every decision is the best over all subsets, and not the end of a search."""
        return all(decision.exact for decision in self.decisions)


def coarsen(taxonomy: Taxonomy, max_children: int, singletons: str = "cohesive") -> Coarsening:
    """Merge negligible internal nodes into their parents, at most ``max_children`` children each.

    ``singletons="cohesive"``: a cluster of one leaf scores 1, and a leaf's own mean distance counts
    the leaf itself. ``singletons="neutral"`` is Rousseeuw's textbook rule: it scores 0.
    """
    if max_children < 2:
        raise TaxonomyError(f"max_children must be at least 2, not {max_children}")
    if singletons not in SINGLETONS:
        raise TaxonomyError(f"singletons is one of {', '.join(SINGLETONS)}, not {singletons!r}")
    if len(taxonomy) == 1:
        return Coarsening(taxonomy, ())
    families = leaf_families(taxonomy, cohesive=singletons == "cohesive")
    kept = np.ones(len(taxonomy), dtype=np.bool_)
    decisions = []
    for u in range(len(families.branches) - 1, -1, -1):  # depth first reversed: children first
        if families.children[u] == [u]:  # leaves only: nothing to decide
            continue
        candidates = _candidates(families, u, max_children)
        merged: tuple[int, ...] = ()
        if candidates.spare >= 0:
            choice = best_subset(candidates)
            merged = choice.positions
            removed = [families.branches[families.children[u][position]] for position in merged]
            kept[removed] = False
            names = tuple([taxonomy.ids[node] for node in removed])
            node = taxonomy.ids[families.branches[u]]
            decisions.append(
                Decision(node, names, choice.score, choice.original_score, choice.exact)
            )
        _settle(families, u, candidates, merged)
    return Coarsening(taxonomy.keep(kept), tuple(decisions[::-1]))


def _candidates(families: Families, u: int, max_children: int) -> Candidates:
    """Lay out both forms of every child of a branch; its own leaves have one form, expanded."""
    meet = families.meets[u]
    below = families.depths[families.first[u] : families.end[u]]
    top, bottom = min(below), max(below) + 1  # the depths at which leaves lie
    children = families.children[u]
    spare = max_children - len(children)
    if children[0] == u:
        spare -= families.parts[u] - 1
    kept, expanded, extra = [], {}, []
    for position, v in enumerate(children):
        first = families.first[v]
        end = first + 1 if v == u else families.end[v]
        depths = [depth - top for depth in families.depths[first:end]]
        counts = families.counts[first:end]
        if v != u:
            away = [1.0 - meet * close for close in families.closeness[v][top:bottom]]
            own = families.own_distances[v]
            kept.append(Form(away, list(zip(depths, own, repeat(inf), counts))))
            if families.parts[v] - 1 > spare:
                continue
        away = [1.0 - meet * close for close in families.nearest_part[v][top:bottom]]
        leaves = zip(depths, families.alone[first:end], families.beside[first:end], counts)
        form = Form(away, list(leaves))
        if v == u:
            kept.append(form)
        else:
            expanded[position] = form
            extra.append(families.parts[v] - 1)
    return Candidates(kept, expanded, extra, spare, families.sizes[u])


def _settle(
    families: Families, u: int, candidates: Candidates, merged: tuple[int, ...]
) -> None:
    """Fix the parts of a branch after its decision, and what its leaves see of them."""
    forms = candidates.forms(merged)
    alone, beside = [], []
    for form, others in zip(forms, distances_to_others(forms)):
        for depth, own, near, _ in form.leaves:
            alone.append(own)
            other = others[depth]
            beside.append(near if near < other else other)
    here = slice(families.first[u], families.end[u])
    families.alone[here] = alone
    families.beside[here] = beside
    children = families.children[u]
    rows = [families.closeness[v] for v in children]
    parts = len(children)
    if children[0] == u:
        rows[0] = families.nearest_part[u]
        parts += families.parts[u] - 1
    for position in merged:
        rows[position] = families.nearest_part[children[position]]
        parts += families.parts[children[position]] - 1
    families.parts[u] = parts
    families.nearest_part[u] = [max(column) for column in zip(*rows)]

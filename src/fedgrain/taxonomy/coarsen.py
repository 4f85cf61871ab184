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

from dataclasses import dataclass, field
from math import inf

import numpy as np

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy.subsets import Candidates, best_subset, nearest_two
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


@dataclass(slots=True)
class _Cluster:
    """The leaves under one node of the tree as it stands, seen from the node above it."""

    node: int
    size: int
    closeness: list[float]  # [depth]: mean over the leaves j here of 2 / (depth + d_j)
    kinds: dict[tuple[int, float], int]  # (depth, summed similarity inside) -> number of leaves
    parts: list[_Cluster] = field(default_factory=list)  # its children, none for a leaf
    gained: dict[int, float] = field(default_factory=dict)  # [depth]: similarity to its siblings
    beside: dict[int, float] = field(default_factory=dict)  # [depth]: distance to the nearest one


def coarsen(taxonomy: Taxonomy, max_children: int, singletons: str = "cohesive") -> Coarsening:
    """Merge negligible internal nodes into their parents, at most ``max_children`` children each.

    ``singletons="cohesive"``: a cluster of one leaf scores 1, and a leaf's own mean distance counts
    the leaf itself. ``singletons="neutral"`` is Rousseeuw's textbook rule: it scores 0.
    """
    if max_children < 2:
        raise TaxonomyError(f"max_children must be at least 2, not {max_children}")
    if singletons not in SINGLETONS:
        raise TaxonomyError(f"singletons is one of {', '.join(SINGLETONS)}, not {singletons!r}")
    clusters = _clusters_of_leaves(taxonomy)
    kept = np.ones(len(taxonomy), dtype=np.bool_)
    decisions = []
    meets = (taxonomy.depth + 1.0).tolist()
    for u in taxonomy.internal[::-1].tolist():  # depth-first numbers reversed: children first
        children = [clusters[v] for v in taxonomy.children(u).tolist()]
        candidates = _candidates(children, meets[u], max_children, singletons)
        merged: tuple[int, ...] = ()
        if candidates.groups:
            choice = best_subset(candidates)
            merged = choice.positions
            removed = [children[position].node for position in merged]
            kept[removed] = False
            names = tuple(taxonomy.ids[v] for v in removed)
            decisions.append(
                Decision(taxonomy.ids[u], names, choice.score, choice.original_score, choice.exact)
            )
        _settle(clusters[u], children, merged, nearest_two(candidates, merged), meets[u])
    return Coarsening(taxonomy.keep(kept), tuple(decisions[::-1]))


def _clusters_of_leaves(taxonomy: Taxonomy) -> list[_Cluster]:
    """Return a cluster per node; the kinds of leaves of inner nodes are filled in on the way up."""
    depths, depth_class = np.unique(taxonomy.depth[taxonomy.leaves], return_inverse=True)
    up_to = np.zeros((len(depth_class) + 1, len(depths)))  # [leaves, depth classes]
    up_to[np.arange(1, len(up_to)), depth_class] = 1.0
    up_to = up_to.cumsum(axis=0)
    first, end = taxonomy.leaf_ranges
    histogram = up_to[end] - up_to[first]  # [nodes, depth classes]
    counted = depths + 1.0
    sizes = taxonomy.leaf_counts
    closeness = histogram @ (2.0 / (counted[:, None] + counted[None, :])) / sizes[:, None]
    clusters = [
        _Cluster(node, size, row, {})
        for node, (size, row) in enumerate(zip(sizes.tolist(), closeness.tolist(), strict=True))
    ]
    for leaf, depth in zip(taxonomy.leaves.tolist(), depth_class.tolist(), strict=True):
        clusters[leaf].kinds[depth, 1.0] = 1  # a leaf is similar to itself by 1
    return clusters


def _candidates(
    children: list[_Cluster], meet: float, max_children: int, singletons: str
) -> Candidates:
    """Lay out what the scores of all subsets at one node depend on; no groups: no choice there."""
    spare = max_children - len(children)
    depths = _depths(children)
    opened = [p for p, child in enumerate(children) if 0 < len(child.parts) <= spare + 1]
    choice = spare >= 0 and any(child.parts for child in children)
    return Candidates(
        kept=[[1.0 - meet * child.closeness[d] for child in children] for d in depths],
        expanded=[
            {p: 1.0 - meet * max([part.closeness[d] for part in children[p].parts]) for p in opened}
            for d in depths
        ],
        groups=_groups(children, opened, depths, singletons) if choice else [],
        open_positions=tuple(opened),
        extra=tuple([len(children[p].parts) - 1 for p in opened]),
        spare=spare,
    )


def _depths(children: list[_Cluster]) -> list[int]:
    """Return the depths at which leaves lie under these children."""
    return sorted({depth for child in children for depth, _ in child.kinds})


def _groups(
    children: list[_Cluster], opened: list[int], depths: list[int], singletons: str
) -> list[tuple[int, int, float, float, float, float]]:
    """Count the leaves that no subset tells apart."""
    row = {depth: number for number, depth in enumerate(depths)}
    total = sum([child.size for child in children])
    counts: dict[tuple[int, int, float, float, float], int] = {}
    for position, child in enumerate(children):
        if position in opened:
            for part in child.parts:
                for (depth, inside), count in part.kinds.items():
                    whole = _own_distance(inside + part.gained[depth], child.size, singletons)
                    alone = _own_distance(inside, part.size, singletons)
                    key = (position, row[depth], whole, alone, part.beside[depth])
                    counts[key] = counts.get(key, 0) + count
        else:
            for (depth, inside), count in child.kinds.items():
                whole = _own_distance(inside, child.size, singletons)
                counts[position, row[depth], whole, whole, inf] = count
    return [(*key, count / total) for key, count in counts.items()]


def _own_distance(similarity: float, size: int, singletons: str) -> float:
    """Mean distance of a leaf to its own cluster; -1 marks a singleton that scores 0."""
    if singletons == "cohesive":
        return (size - similarity) / size
    return (size - similarity) / (size - 1) if size > 1 else -1.0


def _settle(
    above: _Cluster,
    children: list[_Cluster],
    merged: tuple[int, ...],
    nearest: list[tuple[float, float, int]],
    meet: float,
) -> None:
    """Fix the parts of a node after its decision, and what each part sees of its siblings."""
    seen = dict(zip(_depths(children), nearest, strict=True))
    for position, child in enumerate(children):
        gained, beside = {}, {}
        for depth, _ in child.kinds:
            first, second, closest = seen[depth]
            beside[depth] = second if closest == position else first
            outside = above.size * above.closeness[depth] - child.size * child.closeness[depth]
            gained[depth] = meet * outside
        if position in merged:
            for part in child.parts:
                for depth in part.gained:
                    part.gained[depth] += gained[depth]
                    part.beside[depth] = min(part.beside[depth], beside[depth])
            above.parts += child.parts
        else:
            child.gained, child.beside = gained, beside
            above.parts.append(child)
    for part in above.parts:
        for (depth, inside), count in part.kinds.items():
            kind = depth, inside + part.gained[depth]
            above.kinds[kind] = above.kinds.get(kind, 0) + count

from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedgrain.taxonomy import Taxonomy, coarsen, subsets
from fedgrain.taxonomy.branch_tables import undecided
from fedgrain.taxonomy.silhouette import BlockScores, bounds, score_of
from literal_coarsening import cohesive_silhouette, neutral_silhouette
from strategies import tree_from, trees

SILHOUETTE = {"cohesive": cohesive_silhouette, "neutral": neutral_silhouette}


def with_two_leaves_under_each(tree):
    """Turn every leaf into an inner node: then no node has both inner nodes and leaves below it."""
    edges = [(tree.ids[p], tree.ids[n]) for n, p in enumerate(tree.parents.tolist()) if n]
    edges += [(tree.ids[leaf], f"{tree.ids[leaf]}{end}") for leaf in tree.leaves for end in "ab"]
    return Taxonomy.from_edges(edges)


def uniform_tree(seed):
    """Draw evenly what hypothesis draws mostly small: parents."""
    rng = np.random.default_rng(seed)
    return tree_from(rng.integers(10**6, size=rng.integers(8, 30)).tolist())


ALL_TREES = st.one_of(
    trees(max_nodes=30, min_nodes=6),
    st.integers(0, 10**6).map(uniform_tree),
    trees(max_nodes=15, min_nodes=6).map(with_two_leaves_under_each),
)
# w merges into v, so the part of v that s sees best is x, a part of what was w
PART_OF_A_PART = Taxonomy.from_edges(
    [
        *[("r", "v"), ("r", "s"), ("v", "w"), ("w", "x"), ("w", "z"), ("z", "y")],
        *[("x", "x1"), ("x", "x2"), ("y", "y1"), ("y", "y2"), ("s", "s1"), ("s", "s2")],
    ]
)


def every_node(tree, most, *, cohesive):
    """Yield each node with its inner children and its candidates; the nodes below are decided."""
    branches = undecided(tree, cohesive=cohesive)
    for u in range(len(branches.nodes) - 1, -1, -1):
        if not branches.children[u]:
            branches.settle_leaves(u)
            continue
        candidates = branches.candidates(u, most)
        merged = ()
        if candidates.spare >= 0:
            yield branches.nodes[u], [branches.nodes[v] for v in branches.children[u]], candidates
            merged = subsets.best_subset(candidates).positions
        branches.settle(u, candidates, merged)


def feasible(candidates):
    extra = dict(zip(candidates.expanded, candidates.extra, strict=True))
    return [
        subset
        for size in range(len(extra) + 1)
        for subset in combinations(extra, size)
        if sum(extra[position] for position in subset) <= candidates.spare
    ]


@given(ALL_TREES, st.integers(4, 12), st.booleans())
def test_no_subset_scores_above_its_bound(tree, most, cohesive):
    for _, _, candidates in every_node(tree, most, cohesive=cohesive):
        base, gains = bounds(candidates)
        gain = dict(zip(candidates.expanded, gains, strict=True))
        for subset in feasible(candidates):
            bound = base + sum(gain[position] for position in subset)
            assert score_of(candidates, subset) <= bound + subsets.ROUNDING


@given(ALL_TREES, st.integers(4, 12), st.booleans())
def test_the_choice_is_that_among_all_subsets_scored(tree, most, cohesive):
    for _, _, candidates in every_node(tree, most, cohesive=cohesive):
        scored = [(score_of(candidates, subset), subset) for subset in feasible(candidates)]
        assert len(scored) == subsets.count_feasible(candidates)
        best = max(scored)[0]
        tied = [(-len(subset), subset) for score, subset in scored if score >= best - subsets.TIE]
        expected = () if best == -np.inf else min(tied)[1]
        for one_by_one_work, first_block in ((10**9, 64), (0, 64), (0, 1)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(subsets, "ONE_BY_ONE_WORK", one_by_one_work)
                patch.setattr(subsets, "FIRST_BLOCK", first_block)
                assert subsets.best_subset(candidates).positions == expected
        if candidates.expanded:  # as where there are too many subsets to list
            base, gains = bounds(candidates)
            original = score_of(candidates, ())
            many = subsets._best_of_many(candidates, base, gains, original, len(scored))
            assert (many.positions, many.exact) == (expected, True)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(subsets, "EXACT_SUBSETS", 0)
                found = subsets._best_of_many(candidates, base, gains, original, len(scored))
            assert not found.exact and found.subsets == len(scored)
            assert best <= found.at_most + subsets.ROUNDING


@given(ALL_TREES, st.integers(4, 12), st.booleans())
def test_block_scores_are_the_scores(tree, most, cohesive):
    for _, _, candidates in every_node(tree, most, cohesive=cohesive):
        listed = feasible(candidates)
        rows = np.array([[p in subset for p in candidates.expanded] for subset in listed])
        rows = rows.astype(np.bool_).reshape(len(listed), len(candidates.expanded))
        single = [score_of(candidates, subset) for subset in listed]
        np.testing.assert_allclose(BlockScores(candidates)(rows), single, rtol=0, atol=1e-12)


@settings(max_examples=100)
@example(PART_OF_A_PART, 5, "cohesive")
@example(PART_OF_A_PART, 5, "neutral")
@given(ALL_TREES, st.integers(2, 9), st.sampled_from(["cohesive", "neutral"]))
def test_the_score_of_every_subset_is_that_of_the_distances(tree, most, singletons):
    children = {int(u): tree.children(int(u)).tolist() for u in tree.internal}
    distance = 1.0 - tree.wu_palmer(root_depth=1)
    np.fill_diagonal(distance, 0.0)

    def expanded(u, inner):
        return [c for v in children[u] for c in (children[v] if v in inner else [v])]

    def leaves_under(node):
        return [x for c in children[node] for x in leaves_under(c)] if node in children else [node]

    def literal(u, inner):
        clusters = [leaves_under(child) for child in expanded(u, inner)]
        if len(clusters) == 1:
            return -np.inf
        leaves = [leaf for cluster in clusters for leaf in cluster]
        labels = np.repeat(np.arange(len(clusters)), [len(cluster) for cluster in clusters])
        return SILHOUETTE[singletons](distance[np.ix_(leaves, leaves)], labels)

    merged = {tree.index(d.node): d.merged for d in coarsen(tree, most, singletons).decisions}
    for u, inner, candidates in every_node(tree, most, cohesive=singletons == "cohesive"):
        for subset in feasible(candidates):
            expected = literal(u, [inner[position] for position in subset])
            assert score_of(candidates, subset) == pytest.approx(expected, abs=1e-12)
        children[u] = expanded(u, [tree.index(v) for v in merged[u]])


def test_a_chain_of_single_children_is_no_partition():
    tree = Taxonomy.from_edges([("a", "b"), ("b", "c"), ("c", "d")])
    for singletons in ("cohesive", "neutral"):
        coarsening = coarsen(tree, 5, singletons)
        assert coarsening.taxonomy == tree
        assert [(d.score, d.original_score) for d in coarsening.decisions] == [(None, None)] * 2

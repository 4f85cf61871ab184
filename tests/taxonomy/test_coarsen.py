import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy import DEFAULT_MAX_CHILDREN, Taxonomy, coarsen, dataset_taxonomy, subsets
from large_trees import large_tree
from literal_coarsening import coarsen_literally
from strategies import trees

COARSE = {  # method, section 4
    "cifar100": {"nodes": 123, "internal": 23, "max_depth": 8, "mean_children": 5.30},
    "tiny-imagenet": {"nodes": 237, "internal": 37, "max_depth": 6, "mean_children": 6.38},
    "imagenet": {"nodes": 1067, "internal": 67, "max_depth": 9, "mean_children": 15.91},
}


@pytest.mark.parametrize("dataset", COARSE)
def test_the_counts_of_section_4(dataset):
    coarsening = coarsen(dataset_taxonomy(dataset), DEFAULT_MAX_CHILDREN[dataset])
    assert coarsening.taxonomy.properties() == COARSE[dataset]
    assert coarsening.exact


@pytest.mark.parametrize(("dataset", "internal"), [("cifar100", 44), ("tiny-imagenet", 90)])
def test_neutral_equals_scikit_learn_on_every_subset(dataset, internal):
    full, most = dataset_taxonomy(dataset), DEFAULT_MAX_CHILDREN[dataset]
    coarse = coarsen(full, most, singletons="neutral").taxonomy
    assert coarse.properties()["internal"] == internal
    assert coarse == coarsen_literally(full, most, "neutral")


def test_cohesive_equals_the_literal_algorithm_on_cifar100():
    full = dataset_taxonomy("cifar100")
    assert coarsen(full, 8).taxonomy == coarsen_literally(full, 8, "cohesive")


@settings(max_examples=60)
@given(trees(max_nodes=22), st.integers(2, 9), st.sampled_from(["cohesive", "neutral"]))
def test_equals_the_literal_algorithm_on_random_trees(tree, most, singletons):
    assert coarsen(tree, most, singletons).taxonomy == coarsen_literally(tree, most, singletons)


@given(
    trees(max_nodes=60, min_nodes=2), st.integers(2, 12), st.sampled_from(["cohesive", "neutral"])
)
def test_keeps_leaves_bounds_children_and_never_scores_worse(tree, most, singletons):
    coarsening = coarsen(tree, most, singletons)
    coarse = coarsening.taxonomy
    assert {coarse.ids[n] for n in coarse.leaves} == {tree.ids[n] for n in tree.leaves}
    before = dict(zip(tree.ids, tree.child_counts, strict=True))
    for node_id, count in zip(coarse.ids, coarse.child_counts, strict=True):
        assert count <= max(most, before[node_id])  # a node that had more stays as it was
    for decision in coarsening.decisions:
        if decision.original_score is not None:
            assert decision.score >= decision.original_score - 1e-9
    assert coarsening.exact


@pytest.mark.parametrize("singletons", ["cohesive", "neutral"])
def test_one_by_one_and_in_blocks_give_the_same_scores(monkeypatch, singletons):
    full = dataset_taxonomy("imagenet")
    by_limit = []
    for limit in (0, 10**7):  # all in blocks, all one by one
        monkeypatch.setattr(subsets, "ONE_BY_ONE_WORK", limit)
        by_limit.append(coarsen(full, 32, singletons))
    blocks, singly = by_limit
    assert blocks.taxonomy == singly.taxonomy
    for a, b in zip(blocks.decisions, singly.decisions, strict=True):
        assert (a.node, a.merged) == (b.node, b.merged)
        assert a.score == pytest.approx(b.score, abs=1e-12)
        assert a.original_score == pytest.approx(b.original_score, abs=1e-12)


def test_a_tie_goes_to_the_larger_subset():
    # Two equal inner children of two leaves each: splitting both into four singletons scores 1 for
    # every leaf, so does nothing else; with room for three clusters the first child is split.
    edges = [("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")]
    tree = Taxonomy.from_edges(edges)
    (all_merged,) = (d for d in coarsen(tree, 4).decisions if d.node == "r")
    assert all_merged.merged == ("a", "b")
    assert all_merged.score == pytest.approx(1.0)
    (one,) = (d for d in coarsen(tree, 3).decisions if d.node == "r")
    assert one.merged == ("a",)
    assert coarsen(tree, 2).taxonomy == tree


def test_too_many_subsets_are_searched_and_said_so(monkeypatch):
    full = dataset_taxonomy("imagenet")
    exact = coarsen(full, 32)
    monkeypatch.setattr(subsets, "EXACT_SUBSETS", 64)  # that may be best, though there are more
    assert coarsen(full, 32).taxonomy == exact.taxonomy
    monkeypatch.setattr(subsets, "EXACT_SUBSETS", 0)
    searched = coarsen(full, 32)
    assert not searched.exact
    assert len(searched.searched) > 3
    for decision in searched.searched:
        assert decision.subsets > 1 and decision.score <= decision.at_most + 1e-9
    by_node = {d.node: d for d in exact.decisions}
    worse = [by_node[d.node].score - d.score for d in searched.decisions]
    for decision in searched.decisions:
        assert decision.score >= decision.original_score - 1e-9
    assert np.mean(worse) < 0.05


def wide_tree(children, leaves_of):
    edges = [("r", f"v{v:03d}") for v in range(children)]
    edges += [(f"v{v:03d}", f"v{v:03d}-{i}") for v in range(children) for i in range(leaves_of(v))]
    return Taxonomy.from_edges(edges)


def test_a_wide_node_ends_by_search():
    coarsening = coarsen(wide_tree(60, lambda v: 2 + v), 900)
    assert not coarsening.exact
    assert coarsening.taxonomy.child_counts.max() <= 900
    (root,) = coarsening.searched
    assert root.node == "r" and root.subsets > 2**40
    assert root.original_score <= root.score <= root.at_most <= 1


def test_children_that_are_alike_do_not_end_in_a_search():
    """2**300 subsets without the limit, but only 3 kinds of children."""
    coarsening = coarsen(wide_tree(300, lambda v: 2 + v % 3), 400)
    assert coarsening.exact and coarsening.searched == ()
    (root,) = coarsening.decisions
    # each pair adds one child, and each triple two: 100 pairs are the most leaves that score 1
    assert root.merged == tuple(f"v{v:03d}" for v in range(0, 300, 3))
    assert root.subsets is None and root.at_most is None


def test_a_tree_like_that_of_life_is_coarsened_exactly():
    coarsening = coarsen(large_tree(), 32)
    assert coarsening.exact
    assert coarsening.taxonomy.child_counts.max() <= max(32, large_tree().child_counts.max())


@pytest.mark.parametrize(
    ("most", "singletons", "message"),
    [(1, "cohesive", "at least 2, not 1"), (5, "loud", "cohesive or neutral, not 'loud'")],
)
def test_bad_settings_are_refused(most, singletons, message):
    with pytest.raises(TaxonomyError, match=message):
        coarsen(dataset_taxonomy("cifar100"), most, singletons)

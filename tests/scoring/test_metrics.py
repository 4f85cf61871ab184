import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrain.errors import PredictionError, TaxonomyError
from fedgrain.scoring.breakdown import per_class, per_node
from fedgrain.scoring.comparison import (
    edge_distance,
    information,
    information_scores,
    lca_depth,
    micro_scores,
)
from fedgrain.scoring.metrics import comparable, cut_back, hierarchical_scores, mean_hf
from fedgrain.scoring.summary import score, summarise
from fedgrain.taxonomy import Taxonomy
from strategies import trees

QUICK = settings(max_examples=60, deadline=None)
SEEDS = st.integers(0, 10**6)


def case(tree, seed):
    rng = np.random.default_rng(seed)
    truth, prediction = rng.integers(0, len(tree), (2, 25))
    paths = [[int(a) for a in tree.path(node)] for node in range(len(tree))]
    lca = [max(set(paths[t]) & set(paths[p])) for t, p in zip(truth, prediction, strict=True)]
    return truth, prediction, paths, lca


def divided(above, below):
    return above / below if below else 1.0


@QUICK
@given(tree=trees(20, 2), seed=SEEDS)
def test_scores_are_the_formulas(tree, seed):
    truth, prediction, paths, lca = case(tree, seed)
    scores = hierarchical_scores(truth, prediction, tree)
    for i, (t, p) in enumerate(zip(truth, prediction, strict=True)):
        common, of_truth, of_prediction = (len(paths[node]) - 1 for node in (lca[i], t, p))
        assert scores.hr[i] == pytest.approx(divided(common, of_truth))
        assert scores.hp[i] == pytest.approx(divided(common, of_prediction))
        assert scores.hf[i] == pytest.approx(divided(2 * common, of_truth + of_prediction))
    assert tree.lca(truth, prediction).tolist() == lca
    wu_palmer = tree.wu_palmer(root_depth=0)[truth, prediction]
    np.testing.assert_allclose(scores.hf, wu_palmer)


@QUICK
@given(tree=trees(20, 2), seed=SEEDS)
def test_the_summary_by_brute_force(tree, seed):
    truth, prediction, paths, lca = case(tree, seed)
    summary = summarise(truth, prediction, tree)
    scores = hierarchical_scores(truth, prediction, tree)
    assert (summary.hr, summary.hp, summary.hf) == pytest.approx(
        (scores.hr.mean(), scores.hp.mean(), scores.hf.mean())
    )
    pairs = list(zip(truth.tolist(), prediction.tolist(), strict=True))
    at_leaf = [t == p for t, p in pairs if not len(tree.children(t))]
    assert summary.accuracy == (pytest.approx(np.mean(at_leaf)) if at_leaf else None)

    def height(node):
        return max((1 + height(child) for child in tree.children(node)), default=0)

    severity = [height(node) for node, (t, p) in zip(lca, pairs, strict=True) if t != p]
    assert summary.mistake_severity == (pytest.approx(np.mean(severity)) if severity else None)
    expected = []
    for depth in range(1, max(len(paths[t]) for t in truth)):
        hits = [paths[t][depth] in paths[p] for t, p in pairs if len(paths[t]) > depth]
        expected.append(np.mean(hits))
    assert summary.accuracy_per_depth == pytest.approx(tuple(expected))
    assert [height(node) for node in range(len(tree))] == tree.heights.tolist()


@QUICK
@given(tree=trees(20, 2), seed=SEEDS)
def test_scores_of_others_by_brute_force(tree, seed):
    """hiclass on sets of nodes without the root; hiercls on the leaves under each node."""
    truth, prediction, paths, lca = case(tree, seed)
    pairs = [(set(paths[t][1:]), set(paths[p][1:])) for t, p in zip(truth, prediction, strict=True)]
    hits = sum(len(t & p) for t, p in pairs)
    recall = divided(hits, sum(len(t) for t, _ in pairs))
    precision = divided(hits, sum(len(p) for _, p in pairs))
    f = 2 * recall * precision / (recall + precision) if recall + precision else 0.0
    micro = micro_scores(truth, prediction, tree)
    assert (micro.hr, micro.hp, micro.hf) == pytest.approx((recall, precision, f))

    distances = [len(t ^ p) for t, p in pairs]
    assert edge_distance(truth, prediction, tree).tolist() == distances
    depths = [len(paths[node]) - 1 for node in lca]
    assert lca_depth(truth, prediction, tree).tolist() == depths

    under = [sum(node in paths[leaf] for leaf in tree.leaves) for node in range(len(tree))]
    bits = [-math.log2(count / len(tree.leaves)) for count in under]
    np.testing.assert_allclose(information(tree), bits, atol=1e-12)
    informed = information_scores(truth, prediction, tree)
    for i, (t, p) in enumerate(zip(truth, prediction, strict=True)):
        r = divided(bits[lca[i]], bits[t])
        q = divided(bits[lca[i]], bits[p])
        assert (informed.hr[i], informed.hp[i]) == pytest.approx((r, q))
        assert informed.hf[i] == pytest.approx(2 * r * q / (r + q) if r + q else 0.0)

    summary = summarise(truth, prediction, tree)
    assert (summary.micro_hr, summary.micro_hp, summary.micro_hf) == (micro.hr, micro.hp, micro.hf)
    assert summary.edge_distance == pytest.approx(np.mean(distances))
    assert summary.lca_depth == pytest.approx(np.mean(depths))
    means = [values.mean() for values in (informed.hr, informed.hp, informed.hf)]
    found = summary.information_hr, summary.information_hp, summary.information_hf
    assert found == pytest.approx(tuple(means))


def test_micro_and_mean_differ_by_hand():
    """Truths m1 (depth 3) told and b (depth 1) missed: 3 of 4 nodes, but half of the samples."""
    truth, prediction = number("m1", "b"), number("m1", "a")
    assert micro_scores(truth, prediction, FULL).hr == 3 / 4
    assert summarise(truth, prediction, FULL).hr == 1 / 2


@QUICK
@given(tree=trees(20, 2), seed=SEEDS)
def test_breakdowns_by_brute_force(tree, seed):
    truth, prediction, paths, _ = case(tree, seed)
    scores = hierarchical_scores(truth, prediction, tree)
    classes = per_class(truth, prediction, tree)
    assert classes.nodes.tolist() == sorted(set(truth.tolist()))
    for row, node in enumerate(classes.nodes):
        mine = truth == node
        assert classes.samples[row] == mine.sum()
        assert classes.hf[row] == pytest.approx(scores.hf[mine].mean())
        assert classes.hr[row] == pytest.approx(scores.hr[mine].mean())
        assert classes.hp[row] == pytest.approx(scores.hp[mine].mean())
        assert classes.accuracy[row] == pytest.approx((prediction[mine] == node).mean())
    nodes = per_node(truth, prediction, tree)
    for node in range(len(tree)):
        true = np.array([node in paths[t] for t in truth])
        said = np.array([node in paths[p] for p in prediction])
        assert nodes.truths[node] == true.sum()
        assert nodes.predictions[node] == said.sum()
        assert nodes.hits[node] == (true & said).sum()
        if true.any():
            assert nodes.recall[node] == pytest.approx(said[true].mean())
        else:
            assert math.isnan(nodes.recall[node])
        if said.any():
            assert nodes.precision[node] == pytest.approx(true[said].mean())
        if true.any() and said.any():
            both = nodes.recall[node] + nodes.precision[node]
            f1 = 2 * nodes.recall[node] * nodes.precision[node] / both if both else 0.0
            assert nodes.f1[node] == pytest.approx(f1)


@QUICK
@given(tree=trees(20, 2), seed=SEEDS)
def test_cutting_back(tree, seed):
    truth, prediction, paths, _ = case(tree, seed)
    cut = cut_back(truth, prediction, tree)
    for t, p, c in zip(truth, prediction, cut, strict=True):
        assert c == (t if t in paths[p] else p)
    assert (
        hierarchical_scores(truth, cut, tree).hf[tree.is_ancestor(truth, prediction)] == 1
    ).all()


FULL = Taxonomy.from_edges(
    [("r", "a"), ("a", "a1"), ("a", "m"), ("m", "m1"), ("m", "m2"), ("r", "b")]
)


def number(*nodes):
    return np.array([FULL.index(node) for node in nodes])


def test_by_hand():
    truth = number("m1", "m1", "m1", "m1", "b", "r")
    prediction = number("m1", "m2", "a1", "r", "m1", "b")
    scores = hierarchical_scores(truth, prediction, FULL)
    assert scores.hr.tolist() == pytest.approx([1, 2 / 3, 1 / 3, 0, 0, 1])
    assert scores.hp.tolist() == pytest.approx([1, 2 / 3, 1 / 2, 1, 0, 0])
    assert scores.hf.tolist() == pytest.approx([1, 4 / 6, 2 / 5, 0, 0, 0])
    summary = summarise(truth[:5], prediction[:5], FULL)
    assert summary.accuracy == pytest.approx(1 / 5)
    assert summary.mistake_severity == pytest.approx((1 + 2 + 3 + 3) / 4)
    assert summary.accuracy_per_depth == pytest.approx((3 / 5, 2 / 4, 1 / 4))


def test_depths_are_those_of_the_coarse_taxonomy():
    coarse = FULL.keep(np.array([node != "m" for node in FULL.ids]))
    assert FULL.index("m1") == coarse.numbers_in(FULL)[coarse.index("m1")]
    summary = summarise(number("m1", "m1"), number("m2", "m1"), FULL, coarse)
    assert summary.accuracy_per_depth == pytest.approx((1.0, 0.5))
    with pytest.raises(TaxonomyError, match="'m' is not in the full taxonomy"):
        FULL.numbers_in(coarse)


def test_a_node_of_the_coarse_tree_is_scored_on_the_full_one_and_cut_back():
    coarse = FULL.keep(np.array([node != "m" for node in FULL.ids]))
    nodes = np.array([coarse.index(node) for node in ("m1", "m2", "m1")])
    truth = number("m1", "m1", "m")  # the last is coarse: m1 is a kind of m
    assert comparable(nodes, truth, coarse, FULL).tolist() == number("m1", "m2", "m").tolist()
    means = [mean_hf(nodes, truth, coarse, FULL), score(nodes, truth, coarse, FULL).hf]
    of_second = hierarchical_scores(number("m1"), number("m2"), FULL).hf[0]
    assert means == [pytest.approx((1 + of_second + 1) / 3)] * 2


def test_bad_input():
    with pytest.raises(PredictionError, match="same length"):
        hierarchical_scores([1, 2], [1], FULL)
    with pytest.raises(PredictionError, match="from 0 to 6, not int64 from 1 to 7"):
        cut_back([1, 1], [1, 7], FULL)
    with pytest.raises(PredictionError, match="float64"):
        cut_back([0.5], [1], FULL)
    with pytest.raises(PredictionError, match="no predictions"):
        summarise(np.array([], int), np.array([], int), FULL)
    with pytest.raises(ValueError, match="read-only"):
        FULL.ancestor_table[0, 0] = 3

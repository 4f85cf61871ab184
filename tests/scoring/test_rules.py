import time
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrain.errors import PredictionError
from fedgrain.heads import HEADS, build_head, chunks
from fedgrain.heads.chunks import run_in_chunks
from fedgrain.nets import build_net
from fedgrain.scoring.metrics import cut_back, hierarchical_scores
from fedgrain.scoring.operating_curve import operating_curve
from fedgrain.scoring.rules import node_log_probs, predict
from fedgrain.scoring.summary import summarise
from fedgrain.taxonomy import Taxonomy, coarsen
from fedgrain.taxonomy.classes import dataset_taxonomy
from strategies import large_tree, tree_from, trees

QUICK = settings(max_examples=60, deadline=None)
SEEDS = st.integers(0, 10**6)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def specificity(tree, node):
    """Fewest leaves under it, then fewest only children below it."""
    leaves, lone = int(tree.leaf_counts[node]), 0
    while len(tree.children(node)) == 1:
        node, lone = int(tree.children(node)[0]), lone + 1
    return leaves, lone


def most_specific(row, tree, allowed):
    """Section 7: the most specific, then highest P, then id; P as a number of float32."""
    return min(
        (node for node in range(len(tree)) if allowed(np.float32(np.exp(np.float64(row[node]))))),
        key=lambda node: (*specificity(tree, node), -row[node], tree.ids[node]),
    )


@QUICK
@given(tree=trees(20, 2), seed=SEEDS, name=st.sampled_from(sorted(HEADS)), ties=st.booleans())
def test_rules_by_brute_force(tree, seed, name, ties):
    head = build_head(name, tree)
    logits = torch.randn(30, head.num_outputs, generator=generator(seed)) * 2
    if ties:
        logits = logits.round()
    log_probs = head.node_log_probs(logits)
    table = log_probs.numpy()
    for row, leaf in zip(table, predict(log_probs, tree), strict=True):
        assert leaf == max(tree.leaves.tolist(), key=lambda node: (row[node], -node))
    for row, node in zip(table, predict(log_probs, tree, "majority"), strict=True):
        assert node == most_specific(row, tree, lambda value: value > 0.5)
    for threshold in (0.05, 0.3, 0.5, 0.8, 1.0):
        limit = np.float32(threshold)
        for row, node in zip(table, predict(log_probs, tree, "threshold", threshold), strict=True):
            assert node == most_specific(row, tree, lambda value, limit=limit: value >= limit)


def mean_scores(truth, nodes, tree):
    scores = hierarchical_scores(truth, cut_back(truth, nodes, tree), tree)
    return scores.hr.mean(), scores.hp.mean(), scores.hf.mean()


@QUICK
@given(tree=trees(20, 2), seed=SEEDS, name=st.sampled_from(sorted(HEADS)), ties=st.booleans())
def test_the_operating_curve_is_the_threshold_rule_at_every_threshold(tree, seed, name, ties):
    head = build_head(name, tree)
    logits = torch.randn(20, head.num_outputs, generator=generator(seed), dtype=torch.float64)
    log_probs = head.node_log_probs(logits.round() if ties else logits)
    truth = np.random.default_rng(seed).integers(0, len(tree), 20)
    curve = operating_curve(log_probs, tree, truth, tree)
    assert curve.threshold[0] == 1.0
    assert (np.diff(curve.threshold) < 0).all()
    middles = (curve.threshold[:-1] + curve.threshold[1:]) / 2
    falling = np.sort([*curve.threshold, *middles, curve.threshold[-1] / 2])[::-1]
    rank = [specificity(tree, node) for node in range(len(tree))]
    before = [rank[0]] * len(truth)
    for threshold in falling.tolist():
        nodes = predict(log_probs, tree, "threshold", threshold)
        assert curve.at(threshold) == pytest.approx(mean_scores(truth, nodes, tree), abs=1e-9)
        now = [rank[node] for node in nodes]
        assert all(new <= old for new, old in zip(now, before, strict=True))
        before = now
    table = log_probs.numpy()  # by now everyone has reached a leaf, and none is likelier
    likeliest = table[:, tree.leaves].max(1)
    assert np.isin(nodes, tree.leaves).all()
    assert table[np.arange(len(nodes)), nodes].tolist() == likeliest.tolist()


@QUICK
@given(
    full=trees(20, 2),
    members=st.integers(2, 20),
    seed=SEEDS,
    name=st.sampled_from(sorted(HEADS)),
)
def test_expected_hf_by_brute_force(full, members, seed, name):
    """Over a tree and over a coarsening of it; no other node of the taxonomy has a higher mean."""
    for tree in (full, coarsen(full, members).taxonomy):
        head = build_head(name, tree)
        logits = torch.randn(10, head.num_outputs, generator=generator(seed), dtype=torch.float64)
        log_probs = head.node_log_probs(3 * logits)
        leaves, numbers = tree.leaves, tree.numbers_in(full)
        chance = log_probs[:, leaves.tolist()].softmax(1).numpy()
        found = predict(log_probs, tree, "expected-hf", None, full)
        for row, node in zip(chance, found, strict=True):
            means = [
                row @ hierarchical_scores(numbers[leaves], np.full(len(leaves), v), full).hf
                for v in numbers
            ]
            assert means[node] == pytest.approx(max(means), abs=1e-12)


def test_expected_hf_by_hand():
    """Sure of a leaf, or torn between two siblings: a leaf; torn between four: their parent.

    About half each: a1 scores 0.49 + 0.49 x 1/2 = 0.735, the parent 0.98 x 2/3 = 0.653. A quarter
    each: a1 scores 0.24 + 0.72 x 1/2 = 0.60, the parent 0.96 x 2/3 = 0.64.
    """
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b"), *(("a", f"a{n}") for n in range(1, 5))])
    probs = torch.tensor(
        [[0.96, 0.01, 0.01, 0.01, 0.01], [0.49, 0.47, 0.01, 0.01, 0.02], [0.24] * 4 + [0.04]]
    )
    log_probs = build_head("flat-softmax", tree).node_log_probs(probs.log())  # a1 to a4, b
    found = predict(log_probs, tree, "expected-hf")
    assert [tree.ids[node] for node in found] == ["a1", "a1", "a"]


def test_expected_hf_of_improbable_leaves():
    """Probability may lie on inner nodes; what little the leaves have decides, not underflow."""
    table = np.full((1, len(SMALL)), -2000.0)
    table[0, 0] = 0.0
    table[0, SMALL.index("a2")] = -1900.0
    assert SMALL.ids[predict(table, SMALL, "expected-hf")[0]] == "a2"


def test_majority_by_hand():
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2")])
    head = build_head("flat-softmax", tree)  # a1, a2, b
    probs = torch.tensor([[0.4, 0.4, 0.2], [0.6, 0.3, 0.1], [0.25, 0.25, 0.5], [0.1, 0.1, 0.8]])
    found = predict(head.node_log_probs(probs.log()), tree, "majority")
    assert [tree.ids[node] for node in found] == ["a", "a1", "r", "b"]
    found = predict(head.node_log_probs(probs.log()), tree, "threshold", 0.5)
    assert [tree.ids[node] for node in found] == ["a", "a1", "b", "b"]


@pytest.mark.arithmetic
@pytest.mark.parametrize("name", sorted(HEADS))
def test_a_prediction_is_the_same_alone_and_in_any_batch(name):
    tree = dataset_taxonomy("cifar100")
    head = build_head(name, tree)
    net = build_net("cnn-32", head.num_outputs, generator=generator())
    images = torch.randn(70, 3, 32, 32, generator=generator(1))
    together = node_log_probs(net, head, images)
    assert net.training
    for some in (slice(0, 1), slice(33, 34), slice(5, 45)):
        part = node_log_probs(net, head, images[some])
        assert torch.equal(part, together[some])
        for rule in ("leaf", "majority", "expected-hf"):
            alone = predict(part, tree, rule)
            assert (alone == predict(together, tree, rule)[some]).all()
    with torch.no_grad():  # however a user batches them, probabilities agree
        alone = head.node_log_probs(net.eval()(images[:1]))
    assert (alone.exp() - together[:1].exp()).abs().max() < 1e-5


def test_chunks_keep_modes_and_accept_nothing():
    net = build_net("cnn-32", 5, generator=generator())
    net.features[0].eval()
    run_in_chunks(net, torch.zeros(1, 3, 32, 32))
    assert net.training
    assert not net.features[0].training
    assert run_in_chunks(net, torch.zeros(0, 3, 32, 32)).shape == (0, 5)


SMALL = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2"), ("a", "a3")])


# trees with only children


@pytest.mark.parametrize("genus", ["aaa", "zzz"])
@pytest.mark.parametrize("rule", [("majority", None), ("threshold", 0.9)])
def test_an_only_child_comes_before_its_parent_whatever_the_ids(genus, rule):
    edges = [("r", genus), (genus, "lynx"), ("r", "dogs"), ("dogs", "fox"), ("dogs", "wolf")]
    tree = Taxonomy.from_edges(edges)
    head = build_head("flat-softmax", tree)
    logits = torch.tensor([[0.98 if tree.ids[leaf] == "lynx" else 0.01 for leaf in tree.leaves]])
    found = predict(head.node_log_probs(logits.log()), tree, *rule)
    assert [tree.ids[node] for node in found] == ["lynx"]


@pytest.mark.parametrize("name", sorted(HEADS))
@QUICK
@given(tree=trees(20, 2), seed=SEEDS)
def test_a_perfect_model_reaches_every_leaf_by_majority(name, tree, seed):
    """Every step down is sure, in float32, but not so sure that P rounds to 1."""
    head = build_head(name, tree)
    rows = [tree.path(int(leaf)) for leaf in tree.leaves]
    logits = torch.full((len(rows), head.num_outputs), -12.0)
    logits += torch.randn(logits.shape, generator=generator(seed)) / 10
    for row, path in enumerate(rows):
        if head.num_outputs == len(tree.leaves):
            logits[row, row] = 12.0
        elif head.num_outputs == len(tree):
            logits[row, path[-1]] = 12.0
        else:
            logits[row, (path[1:] - 1).tolist()] = 12.0
    found = predict(head.node_log_probs(logits), tree, "majority")
    assert found.tolist() == tree.leaves.tolist()


@pytest.mark.parametrize("name", ["cond-sigmoid", "softmax-descendant", "softmax-margin"])
def test_a_leaf_below_an_only_parent_that_is_likelier_is_reached_as_the_threshold_falls(name):
    """Here a parent keeps probability of its own, so the only child has less."""
    tree = Taxonomy.from_edges([("r", "aaa"), ("aaa", "bbb"), ("bbb", "lynx"), ("r", "fox")])
    head = build_head(name, tree)
    logits = torch.zeros(1, head.num_outputs)
    logits[0, tree.index("aaa") - len(tree)] = 2.0
    logits[0, tree.index("fox") - len(tree)] = -5.0
    log_probs = head.node_log_probs(logits)
    p = log_probs.double().exp()[0]
    assert p[tree.index("aaa")] > p[tree.index("bbb")] > p[tree.index("lynx")]
    at_own = [
        tree.ids[predict(log_probs, tree, "threshold", float(p[tree.index(node)]))[0]]
        for node in ("aaa", "bbb", "lynx")
    ]
    assert at_own == ["aaa", "bbb", "lynx"]
    curve = operating_curve(log_probs, tree, [tree.index("lynx")], tree)
    assert len(curve.threshold) == 4


def test_depth_alone_does_not_decide_between_leaves():
    """A leaf of 0.4 at depth 1 comes before one of 0.3 at depth 3."""
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("b", "c"), ("c", "d"), ("c", "e")])
    head = build_head("flat-softmax", tree)
    log_probs = head.node_log_probs(torch.tensor([[0.4, 0.3, 0.3]]).log())
    assert tree.ids[predict(log_probs, tree, "threshold", 0.2)[0]] == "a"


# thresholds and types of numbers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["cond-softmax", "cond-sigmoid", "flat-softmax"])
def test_a_threshold_read_off_the_curve_is_that_threshold(name, dtype):
    tree = dataset_taxonomy("cifar100")
    head = build_head(name, tree)
    random = torch.randn(60, head.num_outputs, generator=generator(3), dtype=dtype)
    scale = torch.logspace(-1, 1.5, 60, dtype=dtype)[:, None]  # the last are sure: P rounds to 1
    log_probs = head.node_log_probs(random * scale)
    truth = np.random.default_rng(0).integers(0, len(tree), 60)
    curve = operating_curve(log_probs, tree, truth, tree)
    assert len(curve.threshold) > 60
    for point, threshold in enumerate(curve.threshold.tolist()):
        nodes = predict(log_probs, tree, "threshold", threshold)
        expected = mean_scores(truth, nodes, tree)
        assert curve.at(threshold) == pytest.approx(expected, abs=1e-12)
        assert (curve.hr[point], curve.hp[point], curve.hf[point]) == curve.at(threshold)


def test_at_threshold_one_the_curve_and_the_rule_agree_where_p_rounds_to_one():
    table = np.array([[0.0, -1e-20, -1e-20, -50.0, -50.0, -50.0]], dtype=np.float32)
    node = int(predict(table, SMALL, "threshold", 1.0)[0])
    curve = operating_curve(table, SMALL, [1], SMALL)
    assert curve.at(1.0) == pytest.approx(mean_scores([1], [node], SMALL))
    for threshold in (0.0, 1.5):
        with pytest.raises(PredictionError, match="above 0 and at most at 1"):
            curve.at(threshold)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_worked_with_in_float32(dtype):
    head = build_head("cond-softmax", SMALL)
    logits = torch.randn(40, head.num_outputs, generator=generator())
    half = head.node_log_probs(logits).to(dtype)
    truth = np.arange(40) % len(SMALL)
    for rule in (("leaf",), ("majority",), ("threshold", 0.3), ("expected-hf",)):
        expected = predict(half.float(), SMALL, *rule).tolist()
        assert predict(half, SMALL, *rule).tolist() == expected
        if dtype == torch.float16:
            assert predict(half.numpy(), SMALL, *rule).tolist() == expected
    curves = [operating_curve(table, SMALL, truth, SMALL) for table in (half, half.float())]
    assert curves[0].hf.tolist() == curves[1].hf.tolist()


def test_a_tree_of_sixteen_thousand_nodes_in_an_instant():
    tree = large_tree()
    table = np.full((1, len(tree)), -20.0, dtype=np.float32)
    leaf = int(tree.leaves[-1])
    table[0, tree.path(leaf)] = -0.01
    started = time.process_time()
    assert predict(table, tree, "majority").tolist() == [leaf]
    assert predict(table, tree, "threshold", 0.9).tolist() == [leaf]
    curve = operating_curve(table, tree, [leaf], tree)
    assert curve.hf[-1] == 1.0
    assert time.process_time() - started < 0.5  # 0.05 alone; it was 150


@pytest.mark.parametrize("name", sorted(HEADS))
def test_every_rule_on_sixteen_thousand_nodes(name):
    """A batch of 64: loss, probabilities, rules, curve and scores, in seconds and few megabytes."""
    tree = large_tree()
    assert (len(tree), len(tree.leaves)) == (16_344, 10_000)
    started = time.process_time()
    head = build_head(name, tree)
    labels = torch.tensor(np.random.default_rng(0).integers(0, len(tree), 64))
    logits = torch.randn(64, head.num_outputs, generator=generator()).requires_grad_()
    tracemalloc.start()
    try:
        head.loss(logits, labels).backward()
        log_probs = head.node_log_probs(logits.detach())
        for rule in (("leaf",), ("majority",), ("threshold", 0.3), ("expected-hf",)):
            summarise(labels.numpy(), predict(log_probs, tree, *rule), tree)
        curve = operating_curve(log_probs, tree, labels.numpy(), tree)
        peak = tracemalloc.get_traced_memory()[1]  # numpy's part; torch's is tested with the heads
    finally:
        tracemalloc.stop()
    assert curve.hr[0] <= curve.hr[-1]
    assert peak < 200e6
    assert time.process_time() - started < 10  # 0.5 alone


def test_expected_hf_of_many_samples_is_worked_out_in_blocks(monkeypatch):
    head = build_head("cond-softmax", SMALL)
    log_probs = head.node_log_probs(torch.randn(100, head.num_outputs, generator=generator()))
    whole = predict(log_probs, SMALL, "expected-hf")
    monkeypatch.setattr(chunks, "_ENTRIES", 1)
    assert chunks.samples_at_once(len(SMALL)) == 32
    assert predict(log_probs, SMALL, "expected-hf").tolist() == whole.tolist()
    assert predict(log_probs[:0], SMALL, "expected-hf").tolist() == []


def test_a_curve_from_blocks_is_that_of_the_whole_table():
    head = build_head("cond-softmax", SMALL)
    log_probs = head.node_log_probs(torch.randn(100, head.num_outputs, generator=generator()))
    truth = np.arange(100) % len(SMALL)
    whole = operating_curve(log_probs, SMALL, truth, SMALL)
    parts = operating_curve(iter(log_probs.split(30)), SMALL, truth, SMALL)
    for field in ("threshold", "hr", "hp", "hf"):
        assert getattr(whole, field).tolist() == getattr(parts, field).tolist()
    with pytest.raises(PredictionError, match="one truth per sample: 99 for 100"):
        operating_curve(log_probs.split(30), SMALL, truth[:99], SMALL)


def test_bad_input():
    tree = tree_from([0, 0, 1])
    table = np.zeros((2, len(tree)))
    broken = table.copy()
    broken[1, 0] = np.nan
    for arguments, message in {
        (0, "best"): "no rule 'best'; choose one of leaf, majority, threshold, expected-hf",
        (0, "threshold"): "give a threshold with",
        (0, "leaf", 0.5): "give a threshold with",
        (0, "threshold", 0.0): "above 0 and at most at 1, not 0.0",
        (1, "leaf"): "sample 1 has a probability that is not a number",
        (2, "leaf"): "nodes], not",
    }.items():
        chosen = (table, broken, table[:, 1:])[arguments[0]]
        with pytest.raises(PredictionError, match=message):
            predict(chosen, tree, *arguments[1:])
    with pytest.raises(PredictionError, match="one truth per sample: 1 for 2"):
        operating_curve(table, tree, [0], tree)

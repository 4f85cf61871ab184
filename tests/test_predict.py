import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrain.errors import PredictionError
from fedgrain.heads import HEADS, build_head
from fedgrain.heads.chunks import run_in_chunks
from fedgrain.metrics import cut_back, hierarchical_scores, numbers_in
from fedgrain.nets import build_net
from fedgrain.predict import fit_temperature, node_log_probs, operating_curve, predict
from fedgrain.taxonomy import Taxonomy, coarsen
from fedgrain.taxonomy.classes import dataset_taxonomy
from strategies import tree_from, trees

QUICK = settings(max_examples=60, deadline=None)
SEEDS = st.integers(0, 10**6)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def most_specific(row, tree, allowed):
    """Section 7: fewest leaves under it, then highest P, then id."""
    counts = tree.leaf_counts
    return min(
        (node for node in range(len(tree)) if allowed(row[node])),
        key=lambda node: (counts[node], -row[node], tree.ids[node]),
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
    half = np.float32(math.log(0.5))
    for row, node in zip(table, predict(log_probs, tree, "majority"), strict=True):
        assert node == most_specific(row, tree, lambda value: value > half)
    for threshold in (0.05, 0.3, 0.5, 0.8, 1.0):
        limit = np.float32(math.log(threshold))
        for row, node in zip(table, predict(log_probs, tree, "threshold", threshold), strict=True):
            assert node == most_specific(row, tree, lambda value, limit=limit: value >= limit)


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
    middles = ((curve.threshold[:-1] + curve.threshold[1:]) / 2)[np.diff(curve.threshold) < -1e-9]
    for threshold in [*middles[:: max(1, len(middles) // 12)], curve.threshold[-1] / 2]:
        nodes = predict(log_probs, tree, "threshold", float(threshold))
        scores = hierarchical_scores(truth, cut_back(truth, nodes, tree), tree)
        expected = scores.hr.mean(), scores.hp.mean(), scores.hf.mean()
        assert curve.at(float(threshold)) == pytest.approx(expected, abs=1e-9)


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
        leaves, numbers = tree.leaves, numbers_in(full, tree)
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


@pytest.mark.parametrize("name", ["flat-softmax", "ps-softmax", "cond-softmax"])
def test_temperature_undoes_overconfidence(name):
    """Labels drawn from a model are best explained by that model: logits x 3 need T = 3."""
    head = build_head(name, SMALL)
    logits = torch.randn(4000, head.num_outputs, generator=generator(), dtype=torch.float64)
    leaves = torch.tensor(SMALL.leaves).long()
    drawn = head.node_log_probs(logits)[:, leaves].exp().multinomial(1, generator=generator(1))
    labels = leaves[drawn[:, 0]]
    assert fit_temperature(logits * 3, labels, head) == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("name", sorted(HEADS))
def test_no_other_temperature_fits_better(name):
    head = build_head(name, SMALL)
    logits = torch.randn(300, head.num_outputs, generator=generator(), dtype=torch.float64)
    random_labels = torch.randint(len(SMALL), (300,), generator=generator(2))
    likeliest = torch.tensor(predict(head.node_log_probs(logits), SMALL))
    labels = torch.where(torch.arange(300) % 3 > 0, likeliest, random_labels)
    losses = head.sample_losses if name == "cond-sigmoid" else head.marginal_losses
    fitted = losses(logits / fit_temperature(logits, labels, head), labels).mean()
    for temperature in np.geomspace(1 / 64, 64, 200):
        assert fitted <= losses(logits / temperature, labels).mean() + 1e-9


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
    with pytest.raises(PredictionError, match="there is none"):
        empty = torch.zeros(0, len(tree.leaves))
        fit_temperature(empty, torch.zeros(0, dtype=torch.int64), build_head("flat-softmax", tree))

"""Temperatures from sums, probabilities of what is possible, and what a model keeps of them."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedgrain
from fedgrain.calibration import fit_temperature, restricted
from fedgrain.calibration.record import Calibration, calibrate, tempered
from fedgrain.calibration.strangeness import strangeness
from fedgrain.calibration.temperature_sums import (
    TEMPERATURES,
    best_temperature,
    sums_by_depth,
    temperature_sums,
)
from fedgrain.catalogue import HEADS
from fedgrain.errors import FedgrainError, PredictionError
from fedgrain.heads import build_head
from fedgrain.scoring.rules import predict
from fedgrain.taxonomy import Taxonomy
from strategies import trees

QUICK = settings(max_examples=25, deadline=None)
SEEDS = st.integers(0, 10**6)
ZOO = Taxonomy.from_edges(
    [("all", "dog"), ("all", "cat"), ("dog", "pug"), ("dog", "fox"), ("cat", "lion"),
     ("cat", "house"), ("house", "tabby"), ("house", "tom")]
)  # fmt: skip


def logits_of(head, images, seed=0, spread=1.0):
    noise = torch.Generator().manual_seed(seed)
    return torch.randn(images, head.num_outputs, generator=noise) * spread


def drawn(head, logits, seed=1):
    """Draw leaves from a model's own probabilities, shared out among the leaves."""
    leaves = torch.tensor(ZOO.leaves.copy()).long()
    chance = head.node_log_probs(logits)[:, leaves].exp()
    picks = chance.multinomial(1, generator=torch.Generator().manual_seed(seed))
    return leaves[picks[:, 0]].numpy()


@pytest.mark.parametrize("name", ["flat-softmax", "ps-softmax", "cond-softmax"])
@pytest.mark.parametrize("coarse", [False, True])
def test_sums_of_two_sites_undo_what_made_a_model_too_sure(name, coarse):
    """Labels drawn from P need T = 3 if P to the power 3 is what the model says."""
    head = build_head(name, ZOO)
    logits = logits_of(head, 3000)
    labels = drawn(head, logits)
    if coarse:
        labels = np.where(np.arange(3000) % 2, ZOO.parents[labels], labels).astype(np.int64)
    said = logits * 3
    if name == "cond-softmax":  # what to the power 3 leaves these conditionals
        made = head.tempered_log_probs(logits, 1 / 3)
        said = made[:, 1:] - made[:, ZOO.parents[1:].copy()]
    parts = [temperature_sums(head, said[:800], labels[:800])]
    parts.append(temperature_sums(head, said[800:], labels[800:]))
    found = best_temperature(parts)
    assert found == pytest.approx(3.0, rel=0.12)
    whole = temperature_sums(head, said, labels)
    np.testing.assert_allclose(parts[0] + parts[1], whole)


@pytest.mark.parametrize("name", sorted(HEADS))
def test_no_temperature_changes_the_likeliest_leaf_and_one_changes_nothing(name):
    head = build_head(name, ZOO)
    logits = logits_of(head, 200, spread=3.0)
    before = head.node_log_probs(logits)
    assert torch.equal(tempered(head, logits, 1.0), before)
    for temperature in (0.5, 1.7, 4.0):
        table = head.tempered_log_probs(logits, temperature)
        np.testing.assert_array_equal(predict(table, ZOO), predict(before, ZOO))
        parents = torch.tensor(ZOO.parents[1:].copy()).long()
        assert (table[:, 1:] <= table[:, parents]).all() and (table <= 0).all()


@pytest.mark.parametrize("name", sorted(HEADS))
def test_the_fitted_temperature_beats_its_neighbours(name):
    head = build_head(name, ZOO)
    logits = logits_of(head, 400, spread=4.0)
    right = predict(head.node_log_probs(logits), ZOO)
    labels = np.where(np.arange(400) % 3 > 0, right, ZOO.leaves[np.arange(400) % 5])
    found = fit_temperature(logits, labels, head)
    assert found == best_temperature([temperature_sums(head, logits, labels)])

    def loss(temperature):
        table = head.tempered_log_probs(logits.double(), temperature)
        return -float(table.gather(1, torch.from_numpy(labels)[:, None]).mean())

    assert loss(found) < loss(1.0)
    assert loss(found) < min(loss(found * 1.15), loss(found / 1.15)) + 1e-6


@pytest.mark.parametrize("name", sorted(HEADS))
def test_a_temperature_per_depth_keeps_the_tree_and_fits_steps_among_siblings(name):
    """Against the power of conditionals, written out node by node."""
    head = build_head(name, ZOO)
    logits = logits_of(head, 60, spread=3.0)
    chosen = (0.5, 2.0, 3.0)
    found = np.exp(tempered(head, logits, chosen).double().numpy())
    plain = np.exp(head.tempered_log_probs(logits.double(), 1.0).numpy())
    np.testing.assert_allclose(found[:, 0], 1.0)
    for node in ZOO.internal.tolist():
        own = ZOO.children(node)
        shares = (plain[:, own] / plain[:, [node]]) ** (1 / chosen[ZOO.depth[own[0]] - 1])
        wanted = found[:, [node]] * shares / shares.sum(1, keepdims=True)
        np.testing.assert_allclose(found[:, own], wanted, rtol=2e-4, atol=1e-7)
    labels = np.where(np.arange(60) % 2, ZOO.leaves[np.arange(60) % 5], ZOO.index("house"))
    sums = sums_by_depth(head, logits, labels)
    whole = -sum(sums[:, TEMPERATURES.index(1.0)])
    wanted = np.log(plain[np.arange(60), labels]).sum()  # one temperature of 1 at every depth
    assert whole == pytest.approx(wanted, rel=1e-4)
    assert sums[:, -1].tolist() == [
        60,
        60 - (ZOO.depth[labels] < 2).sum(),
        (ZOO.depth[labels] > 2).sum(),
    ]


def test_temperatures_per_depth_are_taken_only_where_they_measure_better(tmp_path):
    head = build_head("cond-softmax", ZOO)
    logits = logits_of(head, 3000)
    labels = drawn(head, logits)
    depth = torch.tensor(ZOO.depth[1:].copy()).long()
    spoilt = logits * torch.tensor([1.0, 4.0, 0.25])[depth - 1]  # what conditionals are made of
    for said, by_depth in ((spoilt, True), (logits, False)):
        parts = [(said[:900], labels[:900]), (said[900:], labels[900:])]
        found = calibrate(head, parts, "drawn", per_depth=True)
        assert isinstance(found.temperature, tuple) == by_depth
        again = Calibration.read(json.loads(json.dumps(found.entries(ZOO))), ZOO)
        assert again.temperature == found.temperature
        if by_depth:
            assert found.temperature == pytest.approx((1.0, 4.0, 0.25), rel=0.2)
            for wrong in ([1.0, 2.0], [1.0, 2.0, 0.0]):
                with pytest.raises(ValueError):
                    Calibration.read({**found.entries(ZOO), "temperature": wrong}, ZOO)
        assert isinstance(calibrate(head, parts, "drawn").temperature, float)


def test_labels_that_say_nothing_and_few_images_leave_the_model_as_it_is():
    head = build_head("cond-softmax", ZOO)
    logits = logits_of(head, 50)
    assert best_temperature([temperature_sums(head, logits, np.zeros(50, int))]) == 1.0
    labels = drawn(head, logits)[:19]
    assert best_temperature([temperature_sums(head, logits[:19] * 9, labels)]) == 1.0
    assert calibrate(head, [(logits[:0], np.empty(0, int))], "none") is None
    with pytest.raises(PredictionError, match="there is none"):
        fit_temperature(logits[:0], np.empty(0, int), head)


@QUICK
@given(tree=trees(16, 3), seed=SEEDS, head=st.sampled_from(sorted(HEADS)))
def test_what_is_excluded_has_no_chance_and_the_rest_adds_up_to_one(tree, seed, head):
    made = build_head(head, tree)
    table = made.node_log_probs(logits_of(made, 6, seed, spread=5.0)).numpy()
    random = np.random.default_rng(seed)
    allowed = random.random((6, len(tree.leaves))) < 0.5
    allowed[np.arange(6), random.integers(0, len(tree.leaves), 6)] = True
    if allowed.all():
        return
    found = np.exp(restricted(table, tree, allowed))
    leaves = found[:, tree.leaves]
    assert (leaves[~allowed] == 0).all()
    np.testing.assert_allclose(leaves.sum(1), 1.0, atol=1e-9)
    for node in range(len(tree)):
        own = tree.is_ancestor(node, tree.leaves)
        np.testing.assert_allclose(found[:, node], leaves[:, own].sum(1), atol=1e-9)
        if not (own & allowed.any(0)).any():
            assert (found[:, node] == 0).all()
    for rule, threshold in (("leaf", None), ("majority", None), ("threshold", 0.3)):
        nodes = predict(np.log(np.maximum(found, 1e-300)), tree, rule, threshold)
        assert (found[np.arange(6), nodes] > 0).all()


def test_with_everything_allowed_nothing_changes_to_the_bit():
    head = build_head("softmax-descendant", ZOO)
    table = head.node_log_probs(logits_of(head, 5)).numpy()
    assert restricted(table, ZOO, np.ones(len(ZOO.leaves), bool)) is table
    with pytest.raises(PredictionError, match="nothing is possible"):
        restricted(table, ZOO, np.zeros(len(ZOO.leaves), bool))
    impossible = np.full((1, len(ZOO)), -np.inf)
    shared = restricted(impossible, ZOO, np.arange(len(ZOO.leaves)) < 2)
    np.testing.assert_allclose(np.exp(shared[0, ZOO.leaves[:2]]), 0.5)


@QUICK
@given(tree=trees(16, 3), seed=SEEDS)
def test_strangeness_is_the_mean_over_depths_of_how_evenly_the_nodes_there_share(tree, seed):
    """Brute force: roll every leaf up to a depth, one by one."""
    head = build_head("flat-softmax", tree)
    table = head.node_log_probs(logits_of(head, 3, seed, spread=2.0))
    found = strangeness(table, tree)
    chance = table.double().exp().numpy()[:, tree.leaves]
    shares = []
    for depth in range(1, int(tree.depth.max()) + 1):
        ends = [int(path[min(depth, len(path) - 1)]) for path in map(tree.path, tree.leaves)]
        if len(set(ends)) > 1:
            rolled = np.stack([chance[:, np.equal(ends, end)].sum(1) for end in set(ends)])
            shares.append(-(rolled * np.log(rolled)).sum(0) / np.log(len(rolled)))
    wanted = np.prod(np.maximum(shares, 1e-6), axis=0) ** (1 / max(len(shares), 1))
    np.testing.assert_allclose(found, wanted if shares else np.zeros(3), rtol=1e-4, atol=1e-6)
    assert (found <= 1 + 1e-9).all()


def test_a_calibration_survives_its_file(tmp_path, small):
    result = fedgrain.run(small(rounds=1), tmp_path / "run", workers=1)
    again = fedgrain.load(tmp_path / "run", trust_code=True)
    tree, kept = again.taxonomy, again.calibration
    assert kept.entries(tree) == result.model.calibration.entries(tree)
    assert kept.images == result.values["validation"]["samples"] and kept.coarse(tree) == 0
    for broken in ({"temperature": 0.0}, {"temperature": float("nan")}, {"nodes": {"no": []}}):
        with pytest.raises((ValueError, FedgrainError)):
            Calibration.read({**kept.entries(tree), **broken}, tree)

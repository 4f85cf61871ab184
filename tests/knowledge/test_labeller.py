"""The learned labeller against EM written out leaf by leaf (method, section 11)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgrain.knowledge.labeller import (
    Evidence,
    LabellerModel,
    children_of,
    inferred_known,
    label_counts,
    learned,
    log_likelihood,
    maximised,
    stop_shares,
    written,
)
from fedgrain.knowledge.projection import project_known
from fedgrain.taxonomy import Taxonomy
from small_federation import NODE, TREE, known

PATHS = {"r": "a b f", "a": "a1 a2", "b": "c b1", "c": "c1 c2"}
DEEP = Taxonomy.from_edges(
    [(above, node) for above, nodes in PATHS.items() for node in nodes.split()]
)
PRIOR = np.array([1.0]), np.array([10.0])


def by_hand(tree, mask, laziness):
    """T [nodes, leaves] as section 11 says it, one leaf after the other."""
    table = np.zeros((len(tree), len(tree.leaves)))
    for column, leaf in enumerate(tree.leaves.tolist()):
        if mask[leaf]:
            table[leaf, column] += 1 - laziness
            table[tree.parents[leaf], column] += laziness
        else:
            table[next(node for node in tree.path(leaf)[::-1] if mask[node]), column] = 1.0
    return table


def evidence_of(tree, mask, labels, leaf_probs):
    """What `learned` is given, from probabilities of leaves [images, leaves]."""
    first, end = tree.leaf_ranges
    coarse = np.flatnonzero(tree.child_counts[labels] > 0)
    children = children_of(tree, labels[coarse])
    probs = np.array(
        [
            [leaf_probs[i, first[c] : end[c]].sum() if c else 0.0 for c in row]
            for i, row in zip(coarse, children, strict=True)
        ]
    ).reshape(children.shape)
    passes = label_counts(tree, labels).astype(float)
    return Evidence(passes, np.zeros(len(coarse), np.int64), children, probs), coarse


def wrote(tree, mask, laziness, leaves, rng):
    """The labels of a labeller for given leaves (by position)."""
    table = by_hand(tree, mask, laziness)
    return np.array([rng.choice(len(tree), p=table[:, leaf]) for leaf in leaves])


@pytest.mark.parametrize("tree", [TREE, DEEP], ids=["6 leaves", "deeper"])
@pytest.mark.parametrize("seed", range(4))
def test_a_step_of_em_is_brute_force_over_leaves(tree, seed):
    rng = np.random.default_rng(seed)
    assert len(tree.leaves) == 6
    mask = np.zeros(len(tree), bool)
    for leaf in rng.choice(tree.leaves, 3, replace=False):
        mask[tree.path(leaf)] = True
    leaves = rng.integers(0, 6, 60)
    labels = wrote(tree, mask, 0.4, leaves, rng)
    probs = rng.dirichlet(np.ones(6), 60)
    model = LabellerModel(tree, mask[None], np.array([0.25]))
    evidence, coarse = evidence_of(tree, mask, labels, probs)

    table = by_hand(tree, mask, 0.25)
    shares = probs * table[labels]  # [images, leaves]
    likelihood = shares.sum(1)
    shares /= likelihood[:, None]
    known_leaf = mask[tree.leaves]
    at_parent = labels[:, None] == tree.parents[tree.leaves]
    early = shares[at_parent & known_leaf].sum()
    expected = (early + 1) / (shares[:, known_leaf].sum() + 10)

    found = stop_shares(model, evidence)
    first, end = tree.leaf_ranges
    for row, image in enumerate(coarse):
        for place, child in enumerate(evidence.children[row]):
            of_child = shares[image, first[child] : end[child]].sum() if child else 0.0
            assert found[row, place] == pytest.approx(of_child, abs=1e-12)
    after = maximised(model, evidence, found, PRIOR)
    assert after.laziness[0] == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(model.writes(0), along_depths(tree, table), atol=1e-12)
    # the constant: what is left open within a child does not depend on the labeller
    constant = np.log(likelihood).sum() - log_likelihood(model, evidence)
    other = replace(model, laziness=np.array([0.6]))
    total = np.log((probs * by_hand(tree, mask, 0.6)[labels]).sum(1)).sum()
    assert total - log_likelihood(other, evidence) == pytest.approx(constant, abs=1e-9)


def along_depths(tree, table):
    """T [nodes, leaves] as [leaves, depths]."""
    found = np.zeros((len(tree.leaves), len(tree.levels)))
    for column, leaf in enumerate(tree.leaves.tolist()):
        for depth, node in enumerate(tree.path(leaf)):
            found[column, depth] = table[node, column]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_likelihood_never_falls_in_a_step_of_em(seed):
    rng = np.random.default_rng(seed)
    mask = known("a", "b", "a1", "a2", "c")
    labels = wrote(TREE, mask, 0.5, rng.integers(0, 6, 200), rng)
    evidence, _ = evidence_of(TREE, mask, labels, rng.dirichlet(np.full(6, 0.5), 200))
    for prior in (PRIOR, (np.zeros(1), np.zeros(1))):
        model, before = LabellerModel(TREE, mask[None], np.array([0.9])), -np.inf
        for _ in range(30):
            e = model.laziness[0]
            value = log_likelihood(model, evidence)
            value += prior[0][0] * np.log(e) + (prior[1][0] - prior[0][0]) * np.log1p(-e)
            assert value >= before - 1e-9
            before = value
            model = maximised(model, evidence, stop_shares(model, evidence), prior)


@pytest.mark.parametrize("laziness", [0.0, 0.2, 0.5, 0.8])
def test_labellers_are_recovered_from_their_labels(laziness):
    """The better the model, the closer T: its error falls from a weak model to a strong one."""
    rng = np.random.default_rng(1)
    mask = known("a", "b", "a1", "a2", "b1")
    leaves = rng.integers(0, 6, 1500)
    labels = wrote(TREE, mask, laziness, leaves, rng)
    truth, errors = by_hand(TREE, mask, laziness), []
    for strength in (0.0, 1.0, 3.0):  # of the model's evidence for the right leaf
        scores = rng.normal(size=(1500, 6)) + strength * np.eye(6)[leaves]
        probs = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        evidence, _ = evidence_of(TREE, mask, labels, probs)
        model = LabellerModel(TREE, inferred_known(TREE, labels), np.zeros(1))
        assert np.array_equal(model.known[0], mask)
        found = learned(model, evidence)
        errors.append(np.abs(found.writes(0) - along_depths(TREE, truth)).max())
    assert errors[2] < 0.05, errors
    assert errors[2] <= errors[0] + 0.02, errors


def test_without_early_stops_t_is_the_projection():
    mask = known("a", "a1", "b")
    model = LabellerModel(TREE, mask[None], np.zeros(1))
    labels = project_known(TREE, mask[None]).labels[0]
    writes = model.writes(0)
    assert np.array_equal(writes.sum(1), np.ones(6))
    for column, label in enumerate(labels):
        assert writes[column, TREE.depth[label]] == 1.0


def test_any_stops_make_shares_of_one():
    stops = np.random.default_rng(3).random(len(DEEP))
    stops[0] = 0.0  # everyone is past the root
    np.testing.assert_allclose(written(DEEP, stops).sum(1), 1.0)


def test_what_was_written_twice_is_known():
    labels = np.array([NODE[name] for name in ["a1", "a1", "a2", "b", "c", "c"]])
    expected = known("a", "a1", "c")
    assert np.array_equal(inferred_known(TREE, labels)[0], expected)
    who = np.array([0, 1, 1, 1, 0, 0])
    each = inferred_known(TREE, labels, who, 2)
    assert np.array_equal(each, [known("c"), known("a")])
    assert np.array_equal(
        inferred_known(TREE, labels, min_count=1)[0], known("a", "b", "a1", "a2", "c")
    )
    assert np.array_equal(inferred_known(TREE, np.empty(0, np.int64)), [known()])


def test_a_label_its_labeller_cannot_have_written_says_nothing_about_it():
    """It knows x and y below a, so it would never write the root, not even early."""
    tree = Taxonomy.from_edges([("r", "a"), ("a", "x"), ("a", "y")])
    labels = np.array([tree.index("x")] * 5 + [0])
    everything = np.ones(len(tree), bool)
    evidence, _ = evidence_of(tree, everything, labels, np.full((6, 2), 0.5))
    model = LabellerModel(tree, everything[None], np.array([0.1]))
    assert not stop_shares(model, evidence).any()
    assert learned(model, evidence).laziness[0] == pytest.approx(1 / 15)


def test_an_annotator_with_few_labels_is_drawn_towards_the_site():
    """Three annotators who stop early at 0.1, 0.1 and 0.7; the third with 3 or 3000 labels."""
    mask = np.ones(len(TREE), bool)
    found = {}
    for count in (3, 3000):
        rng = np.random.default_rng(2)
        sizes, rates = (2000, 2000, count), (0.1, 0.1, 0.7)
        who = np.repeat([0, 1, 2], sizes)
        leaves = rng.integers(0, 5, len(who))
        pairs = zip((0, 1, 2), sizes, rates, strict=True)
        labels = np.concatenate(
            [wrote(TREE, mask, rate, leaves[who == w], rng) for w, _, rate in pairs]
        )
        passes = label_counts(TREE, labels, who, 3).astype(float)
        coarse = np.flatnonzero(TREE.child_counts[labels] > 0)
        children = children_of(TREE, labels[coarse])
        probs = np.where(children > 0, 1.0, 0.0)
        evidence = Evidence(passes, who[coarse], children, probs)
        found[count] = learned(
            LabellerModel(TREE, np.tile(mask, (3, 1)), np.zeros(3)), evidence
        ).laziness
    assert found[3000] == pytest.approx([0.1, 0.1, 0.7], abs=0.03)
    assert found[3][2] < 0.25  # almost the site's 0.1
    assert found[3][:2] == pytest.approx([0.1, 0.1], abs=0.03)

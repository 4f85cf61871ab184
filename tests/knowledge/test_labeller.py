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
    labeller_model,
    written,
)
from fedgrain.knowledge.labeller_em import (
    bound,
    chosen_form,
    first_model,
    fitted,
    learned,
    log_likelihood,
    next_model,
    stop_counts,
    stop_shares,
)
from fedgrain.knowledge.projection import project_known
from fedgrain.taxonomy import Taxonomy
from small_federation import NODE, TREE, known

PATHS = {"r": "a b f", "a": "a1 a2", "b": "c b1", "c": "c1 c2"}
DEEP = Taxonomy.from_edges(
    [(above, node) for above, nodes in PATHS.items() for node in nodes.split()]
)


def by_hand(tree, mask, laziness):
    """T [nodes, leaves] of certain knowledge as section 11 says it, one leaf after the other."""
    table = np.zeros((len(tree), len(tree.leaves)))
    for column, leaf in enumerate(tree.leaves.tolist()):
        if mask[leaf]:
            table[leaf, column] += 1 - laziness
            table[tree.parents[leaf], column] += laziness
        else:
            table[next(node for node in tree.path(leaf)[::-1] if mask[node]), column] = 1.0
    return table


def along_depths(tree, table):
    """T [nodes, leaves] as [leaves, depths]."""
    found = np.zeros((len(tree.leaves), len(tree.levels)))
    for column, leaf in enumerate(tree.leaves.tolist()):
        for depth, node in enumerate(tree.path(leaf)):
            found[column, depth] = table[node, column]
    return found


def evidence_of(tree, labels, leaf_probs, who=None, count=1):
    """What `learned` is given, from probabilities of leaves [images, leaves]."""
    first, end = tree.leaf_ranges
    who = np.zeros(len(labels), np.int64) if who is None else who
    coarse = np.flatnonzero(tree.child_counts[labels] > 0)
    children = children_of(tree, labels[coarse])
    probs = np.array(
        [
            [leaf_probs[i, first[c] : end[c]].sum() if c else 0.0 for c in row]
            for i, row in zip(coarse, children, strict=True)
        ]
    ).reshape(children.shape)
    passes = label_counts(tree, labels, who, count).astype(float)
    asked = passes[:, np.maximum(tree.parents, 0)] > 0
    asked[:, 0] = False
    return Evidence(passes, asked, who[coarse], children, probs)


def wrote(tree, mask, laziness, leaves, rng):
    """The labels of a labeller for given leaves (by position)."""
    table = by_hand(tree, mask, laziness)
    return np.array([rng.choice(len(tree), p=table[:, leaf]) for leaf in leaves], dtype=np.int64)


def random_mask(tree, rng):
    mask = np.zeros(len(tree), bool)
    for leaf in rng.choice(tree.leaves, 3, replace=False):
        mask[tree.path(leaf)] = True
    return mask


def model_of(tree, knows, of_leaves, of_inner):
    lazy = np.where(tree.child_counts == 0, of_leaves, of_inner)
    return LabellerModel(tree, np.asarray(knows, float)[None], lazy[None])


@pytest.mark.parametrize("tree", [TREE, DEEP], ids=["6 leaves", "deeper"])
@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_step_of_em_is_brute_force_over_leaves(tree, seed, certain):
    rng = np.random.default_rng(seed)
    assert len(tree.leaves) == 6
    mask = random_mask(tree, rng)
    labels = wrote(tree, mask, 0.4, rng.integers(0, 6, 60), rng)
    probs = rng.dirichlet(np.ones(6), 60)
    knows = mask.astype(float) if certain else rng.uniform(0.1, 0.9, len(tree))
    model = model_of(tree, knows, 0.25, 0.1)
    evidence = evidence_of(tree, labels, probs)

    # E-step: which leaf does each image show?
    shares, stopped = np.zeros((60, 6)), np.zeros(len(tree))
    for image, label in enumerate(labels):
        for column, leaf in enumerate(tree.leaves.tolist()):
            path = tree.path(leaf).tolist()
            if label in path:
                step = path[path.index(label) + 1] if label != leaf else None
                weight = 1.0 if step is None else model.lazy[0, step] ** knows[step]
                shares[image, column] = probs[image, column] * weight
        shares[image] /= shares[image].sum()
        for column, leaf in enumerate(tree.leaves.tolist()):
            path = tree.path(leaf).tolist()
            if label in path and label != leaf:
                stopped[path[path.index(label) + 1]] += shares[image, column]
    if certain:  # then it is P times T
        with_t = probs * table_of(tree, written(tree, model.stops[0]))[labels]
        np.testing.assert_allclose(shares, with_t / with_t.sum(1, keepdims=True), atol=1e-12)
    found = stop_counts(model, evidence, stop_shares(model, evidence))[0]
    np.testing.assert_allclose(found, stopped, atol=1e-12)

    # M-step, and then what is known
    passes = [sum(node in tree.path(label) for label in labels) for node in range(len(tree))]
    after = next_model(model, evidence)
    for is_leaf in (True, False):
        kind = [
            v for v in range(1, len(tree))
            if (tree.child_counts[v] == 0) == is_leaf and passes[tree.parents[v]]
        ]  # fmt: skip
        early = sum(knows[v] * stopped[v] for v in kind)
        lazy = (early + 1) / (early + sum(knows[v] * passes[v] for v in kind) + 10)
        prior = (sum(knows[v] for v in kind) + 1) / (len(kind) + 2)
        for v in kind:
            assert after.lazy[0, v] == pytest.approx(lazy, abs=1e-12)
            yes = prior * lazy ** stopped[v] * (1 - lazy) ** passes[v]
            no = (1 - prior) * 0.01 ** passes[v]
            assert after.knows[0, v] == pytest.approx(yes / (yes + no), abs=1e-9)


def table_of(tree, writes):
    """T [leaves, depths] as [nodes, leaves]."""
    table = np.zeros((len(tree), len(tree.leaves)))
    for column, leaf in enumerate(tree.leaves.tolist()):
        for depth, node in enumerate(tree.path(leaf)):
            table[node, column] = writes[column, depth]
    return table


@pytest.mark.parametrize("tree", [TREE, DEEP], ids=["6 leaves", "deeper"])
@pytest.mark.parametrize("seed", range(5))
def test_the_likelihood_never_falls_in_a_step_of_em(tree, seed):
    rng = np.random.default_rng(seed)
    mask = random_mask(tree, rng)
    labels = wrote(tree, mask, 0.5, rng.integers(0, 6, 200), rng)
    evidence = evidence_of(tree, labels, rng.dirichlet(np.full(6, 0.5), 200))
    model = first_model(tree, evidence)
    before = bound(model, evidence)
    for _ in range(40):
        model = next_model(model, evidence)
        value = bound(model, evidence)
        assert value >= before - 1e-9
        before = value


@pytest.mark.parametrize("laziness", [0.0, 0.2, 0.5, 0.8])
def test_labellers_are_recovered_from_their_labels(laziness):
    """As the model gets better, round by round, T gets closer to how the labels were made."""
    rng = np.random.default_rng(1)
    mask = known("a", "b", "a1", "a2", "b1")
    leaves = rng.integers(0, 6, 1500)
    labels = wrote(TREE, mask, laziness, leaves, rng)
    truth, errors = along_depths(TREE, by_hand(TREE, mask, laziness)), []
    for strength in (0.0, 1.0, 3.0):  # of the model's evidence for the right leaf
        scores = rng.normal(size=(1500, 6)) + strength * np.eye(6)[leaves]
        probs = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        found = learned(TREE, evidence_of(TREE, labels, probs))
        errors.append(np.abs(found.writes(0) - truth).max())
    assert errors[2] < 0.05, errors
    assert errors[2] <= errors[0] + 0.02, errors
    assert np.array_equal(found.known[0], mask)


def test_a_slip_is_not_knowledge_and_a_rare_class_is():
    """Named once: with forty open images of the class a slip, with none a class seen once."""
    names = ["a1"] * 30 + ["a2"] * 30 + ["a"] * 40 + ["a3", "b1"]
    labels, probs = np.array([NODE[name] for name in names]), np.full((len(names), 6), 0.002)
    shows = ["a1"] * 30 + ["a2"] * 30 + ["a3"] * 41 + ["b1"]
    leaf = {name: column for column, name in enumerate(["a1", "a2", "a3", "b1", "b2", "c"])}
    probs[np.arange(len(names)), [leaf[name] for name in shows]] = 0.99
    knows = learned(TREE, evidence_of(TREE, labels, probs)).knows[0]
    assert knows[NODE["a1"]] > 0.99 and knows[NODE["a2"]] > 0.99
    assert knows[NODE["a3"]] < 0.01
    assert knows[NODE["b1"]] > 0.9


def test_laziness_may_go_up_more_than_one_level():
    """Who knows the leaves but writes the root for three in ten is read as such."""
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b"), *((v, v + n) for v in "ab" for n in "12")])
    rng = np.random.default_rng(4)
    leaves = rng.integers(0, 4, 600)
    labels = tree.leaves[leaves].astype(np.int64)
    labels[rng.random(600) < 0.3] = 0
    probs = np.full((600, 4), 0.01)
    probs[np.arange(600), leaves] = 0.97
    found = learned(tree, evidence_of(tree, labels, probs))
    assert found.known[0].all()
    np.testing.assert_allclose(found.writes(0)[:, 0], 0.3, atol=0.05)
    np.testing.assert_allclose(found.writes(0)[:, 1], 0.0, atol=0.02)


def test_without_early_stops_t_is_the_projection():
    mask = known("a", "a1", "b")
    writes = labeller_model(TREE, mask[None]).writes(0)
    labels = project_known(TREE, mask[None]).labels[0]
    assert np.array_equal(writes.sum(1), np.ones(6))
    for column, label in enumerate(labels):
        assert writes[column, TREE.depth[label]] == 1.0


def test_any_stops_make_shares_of_one():
    stops = np.random.default_rng(3).random(len(DEEP))
    stops[0] = 0.0  # everyone is past the root
    np.testing.assert_allclose(written(DEEP, stops).sum(1), 1.0)


def test_what_was_written_twice_is_known_at_first():
    labels = np.array([NODE[name] for name in ["a1", "a1", "a2", "b", "c", "c"]])
    expected = known("a", "a1", "c")
    assert np.array_equal(inferred_known(TREE, labels)[0], expected)
    each = inferred_known(TREE, labels, np.array([0, 1, 1, 1, 0, 0]), 2)
    assert np.array_equal(each, [known("c"), known("a")])
    assert np.array_equal(inferred_known(TREE, np.empty(0, np.int64)), [known()])


def several(sizes, rates, masks):
    """Labels of several annotators for random leaves, and a model that mostly sees the truth."""
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(len(sizes)), sizes)
    leaves = rng.integers(0, 6, len(who))
    labels = np.concatenate(
        [wrote(TREE, masks[w], rates[w], leaves[who == w], rng) for w in range(len(sizes))]
    )
    probs = np.full((len(who), 6), 0.02)
    probs[np.arange(len(who)), leaves] = 0.9
    return learned(TREE, evidence_of(TREE, labels, probs, who, len(sizes)))


def test_an_annotator_with_few_labels_is_drawn_towards_the_site():
    """Who wrote four labels is about as lazy as the others, and may know what they know."""
    everything = np.ones(len(TREE), bool)
    leaf = NODE["a1"]
    few = several((600, 600, 4), (0.1, 0.1, 0.9), [everything] * 3)
    assert few.lazy[:2, leaf] == pytest.approx([0.1, 0.1], abs=0.05)
    assert few.lazy[2, leaf] < 0.35
    alone = several((4,), (0.9,), [everything])
    assert few.knows[2, leaf] > 0.5 > alone.knows[0, leaf]  # it never wrote a1
    many = several((600, 600, 600), (0.1, 0.1, 0.7), [everything] * 3)
    assert many.lazy[:, leaf] == pytest.approx([0.1, 0.1, 0.7], abs=0.05)


def test_annotators_who_know_different_things_are_told_apart():
    masks = [known("a", "a1", "a2", "a3"), known("b", "b1", "b2")]
    found = several((300, 300), (0.0, 0.0), masks)
    assert np.array_equal(found.known, masks)


FAMILIES = Taxonomy.from_edges(
    [("r", b) for b in "abc"] + [(b, f"{b}{g}") for b in "abc" for g in "01"]
    + [(f"{b}{g}", f"{b}{g}{n}") for b in "abc" for g in "01" for n in "0123"]
)  # fmt: skip


@pytest.mark.parametrize("pattern", ["kind", "depth", "branch"])
def test_the_form_of_laziness_is_chosen_by_held_out_labels(pattern):
    """An expert on one branch who is lazy in the others, and one who skips a level."""
    tree, rng, count = FAMILIES, np.random.default_rng(6), 3000
    leaf, branch = tree.child_counts == 0, tree.ancestor_table[:, 1]
    lazy = np.where(leaf, 0.5, 0.0)
    if pattern == "depth":
        lazy = np.choose(tree.depth, [0.0, 0.0, 0.6, 0.1])
    if pattern == "branch":
        lazy = np.where(leaf & (branch != tree.index("a")), 0.8, 0.0)
    truth = LabellerModel(tree, np.ones((1, len(tree))), lazy[None]).writes(0)
    leaves = rng.integers(0, len(tree.leaves), count)
    depths = np.array([rng.choice(truth.shape[1], p=truth[k]) for k in leaves])
    labels = tree.ancestor_table[tree.leaves][leaves, depths].astype(np.int64)
    probs = np.full((count, len(tree.leaves)), 0.1 / 23)
    probs[np.arange(count), leaves] = 0.9
    found = fitted(tree, labels, None, 1, evidence_of(tree, labels, probs).probabilities)
    assert np.abs(found.writes(0) - truth).sum(1).mean() / 2 < 0.03
    plain = learned(tree, evidence_of(tree, labels, probs))
    worse = np.abs(plain.writes(0) - truth).sum(1).mean() / 2
    assert (worse > 0.1) == (pattern != "kind")
    half = evidence_of(tree, labels[::2], probs[::2]), evidence_of(tree, labels[1::2], probs[1::2])
    assert chosen_form(tree, *half) == pattern


def test_held_out_likelihood_is_that_of_the_labels():
    """Brute force: the sum over leaves of P times T, but for the probability of the label."""
    rng = np.random.default_rng(7)
    labels, probs = rng.integers(0, len(DEEP), 50), rng.dirichlet(np.ones(6), 50)
    model = model_of(DEEP, rng.uniform(0.2, 0.8, len(DEEP)), 0.3, 0.2)
    table = table_of(DEEP, model.writes(0))
    under = np.array([[v in DEEP.path(leaf) for leaf in DEEP.leaves] for v in range(len(DEEP))])
    given = (probs * under[labels]).sum(1)
    expected = np.log((probs * table[labels]).sum(1) / given).sum()
    evidence = evidence_of(DEEP, labels, probs)
    shares = evidence.probabilities / evidence.probabilities.sum(1, keepdims=True)
    found = log_likelihood(model, replace(evidence, probabilities=shares))
    assert found == pytest.approx(expected, abs=1e-9)


def test_a_wide_node_that_only_one_half_of_the_labels_has():
    """The halves on which the form is chosen may have labels with fewer children than all have."""
    edges = [("root", "wide"), ("root", "narrow"), ("narrow", "n0"), ("narrow", "n1")]
    edges += [("wide", f"w{number}") for number in range(9)]
    tree = Taxonomy.from_edges(edges)
    labels = np.array([tree.index("wide")] + [tree.index("narrow")] * 7)
    found = fitted(tree, labels, None, 1, np.full((len(labels), 9), 1 / 9))
    assert found.lazy.shape == (1, len(tree)) and np.isfinite(found.knows).all()

"""Guaranteed nodes and sets against brute force: every leaf, every threshold, on small trees."""

import math
from contextlib import suppress
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrain.calibration import (
    ScoreCounts,
    greedy_path,
    guaranteed_nodes,
    guaranteed_sets,
    node_scores,
    set_scores,
)
from fedgrain.calibration.guarantee import node_cells, path_probabilities
from fedgrain.calibration.node_sets import leaves_taken, set_cells
from fedgrain.calibration.score_counts import CELLS, EDGES, fewest_images
from fedgrain.errors import PredictionError
from fedgrain.heads import build_head
from fedgrain.taxonomy import Taxonomy
from strategies import trees

QUICK = settings(max_examples=25, deadline=None)
SEEDS = st.integers(0, 10**6)
ZOO = Taxonomy.from_edges(
    [("all", "dog"), ("all", "cat"), ("dog", "pug"), ("dog", "fox"), ("dog", "jackal"),
     ("cat", "lion"), ("cat", "house"), ("house", "tabby"), ("house", "tom")]
)  # fmt: skip


def table_of(tree, images, seed, head="flat-softmax", spread=2.0):
    made = build_head(head, tree)
    noise = torch.Generator().manual_seed(seed)
    return made.node_log_probs(torch.randn(images, made.num_outputs, generator=noise) * spread)


def leaves_under(tree, node):
    return [leaf for leaf in tree.leaves.tolist() if tree.is_ancestor(node, leaf)]


@QUICK
@given(tree=trees(14, 3), seed=SEEDS)
def test_a_node_holds_the_truth_exactly_where_its_threshold_is_above_the_score(tree, seed):
    table = table_of(tree, 3, seed)
    path = greedy_path(table, tree)
    along = path_probabilities(table, path, tree)
    steps = sorted({*along.ravel().tolist(), *(along.ravel() + 1e-6).tolist(), 0.5, 2.0})
    answers = {t: guaranteed_nodes(table, tree, t) for t in steps if t > 0}
    for node in range(len(tree)):
        scores = node_scores(table, np.full(3, node), tree)
        for t, found in answers.items():
            safe = [
                all(tree.is_ancestor(at, leaf) for leaf in leaves_under(tree, node)) for at in found
            ]
            assert safe == (scores < t).tolist()


@QUICK
@given(tree=trees(14, 3), seed=SEEDS, head=st.sampled_from(["cond-softmax", "softmax-margin"]))
def test_asking_for_more_never_gives_a_less_safe_node_also_where_not_everything_is_possible(
    tree, seed, head
):
    table = table_of(tree, 4, seed, head)
    allowed = np.random.default_rng(seed).random(len(tree.leaves)) < 0.5
    allowed[seed % len(allowed)] = True
    before = taken = None
    for t in np.linspace(0, 1.1, 23):
        for possible in (None, allowed):
            nodes = guaranteed_nodes(table, tree, t, possible)
            if possible is None and before is not None:
                assert tree.is_ancestor(nodes, before).all()
            if possible is None:
                before = nodes
                continue
            inside = [[x for x in leaves_under(tree, n) if allowed[list(tree.leaves).index(x)]]
                      for n in before]  # fmt: skip
            for found, own in zip(nodes, inside, strict=True):  # the deepest over all of them
                assert all(tree.is_ancestor(found, leaf) for leaf in own)
                below = [
                    c for c in tree.children(found) if all(tree.is_ancestor(c, x) for x in own)
                ]
                assert not own or not below
        now = leaves_taken(table, tree, t)
        assert taken is None or (now | ~taken).all()
        taken = now


@QUICK
@given(tree=trees(14, 3), seed=SEEDS)
def test_a_set_holds_the_truth_exactly_where_its_threshold_reaches_the_score(tree, seed):
    table = table_of(tree, 3, seed)
    by_leaf = np.stack([set_scores(table, np.full(3, n), tree) for n in tree.leaves], axis=1)
    for node in range(len(tree)):
        own = np.isin(tree.leaves, leaves_under(tree, node))
        worst = by_leaf[:, own].max(1)
        np.testing.assert_array_equal(set_scores(table, np.full(3, node), tree), worst)
        # all that comes before the node, and the node: leaves below it are not scattered
        assert (worst <= 1 + 1e-6).all()
    for t in (0.3, 0.7, 0.95, 2.0):
        taken = by_leaf <= t
        for row, nodes in zip(taken, guaranteed_sets(table, tree, t), strict=True):
            found = sorted(leaf for node in nodes for leaf in leaves_under(tree, node))
            assert len(found) == len(set(found))
            if row.any():
                assert found == tree.leaves[row].tolist()
            else:
                assert len(found) == 1


@QUICK
@given(seed=SEEDS, guarantee=st.sampled_from([0.3, 0.5, 0.8]))
def test_the_threshold_covers_whatever_the_truths_of_partly_possible_labels_are(seed, guarantee):
    """Brute force: for every way to place coarse truths, enough of those inside are covered."""
    random = np.random.default_rng(seed)
    labels = random.choice([ZOO.index(n) for n in ("pug", "fox", "lion", "dog", "house")], 9)
    cells = random.integers(0, CELLS, 9)
    allowed = np.isin(ZOO.leaves, [ZOO.index(n) for n in ("pug", "fox", "tabby", "lion")])
    counts = ScoreCounts.of(labels, cells)
    worst = -1
    truths = [leaves_under(ZOO, label) for label in labels.tolist()]
    for chosen in product(*truths):
        own = np.sort(cells[[bool(allowed[ZOO.leaves == leaf][0]) for leaf in chosen]])
        rank = math.ceil((len(own) + 1) * guarantee - 1e-9)
        worst = max(worst, CELLS if rank > len(own) else int(own[rank - 1]))
    if worst == CELLS:
        with pytest.raises(PredictionError, match="needs at least"):
            counts.threshold(guarantee, ZOO, allowed)
    else:
        found = counts.threshold(guarantee, ZOO, allowed)
        assert found == np.append(EDGES, np.inf)[worst]


def test_too_few_images_promise_nothing_and_one_more_is_enough():
    for guarantee, fewest in ((0.8, 4), (0.9, 9), (0.95, 19), (0.99, 99)):
        assert fewest_images(guarantee) == fewest
        enough = ScoreCounts.of(np.full(fewest, 2), np.zeros(fewest, int))
        assert enough.threshold(guarantee, ZOO) == EDGES[0]
        with pytest.raises(PredictionError, match=f"at least {fewest} calibration images"):
            ScoreCounts.of(np.full(fewest - 1, 2), np.zeros(fewest - 1, int)).threshold(
                guarantee, ZOO
            )
    with pytest.raises(PredictionError, match="between 0 and 1"):
        enough.threshold(1.0, ZOO)


@pytest.mark.parametrize("coarse", [0.0, 0.5])
def test_coverage_over_many_splits(coarse):
    """Half of the calibration truths coarse: still at least what was asked, for nodes and sets."""
    images, splits = 700, 60
    table = table_of(ZOO, images, 3).double()
    random = np.random.default_rng(1)
    leaves = np.exp(table.numpy()[:, ZOO.leaves]) ** 0.5  # the model is too sure
    cumulated = np.cumsum(leaves / leaves.sum(1, keepdims=True), axis=1)
    truth = ZOO.leaves[(random.random((images, 1)) > cumulated).sum(1)]
    written = np.where(random.random(images) < coarse, ZOO.parents[truth], truth).astype(int)
    kinds = ((node_cells, node_scores), (set_cells, set_scores))
    cells = [cell(table, written, ZOO) for cell, _ in kinds]
    scores = [score(table, truth.astype(int), ZOO) for _, score in kinds]
    for guarantee, (which, strictly) in product((0.8, 0.95), ((0, True), (1, False))):
        shares = []
        for _ in range(splits):
            order = random.permutation(images)
            known, new = order[:350], order[350:]
            t = ScoreCounts.of(written[known], cells[which][known]).threshold(guarantee, ZOO)
            own = scores[which][new]
            shares.append(float((own < t if strictly else own <= t).mean()))
        slack = 3 * math.sqrt(guarantee * (1 - guarantee) / 350 / splits * 2)
        assert np.mean(shares) >= guarantee - slack
        if not coarse:
            assert np.mean(shares) <= guarantee + 0.04  # and not by saying nothing


def test_counts_of_sites_add_up_and_survive_json():
    table = table_of(ZOO, 40, 5)
    labels = np.random.default_rng(2).integers(0, len(ZOO), 40)
    cells = node_cells(table, labels, ZOO)
    whole = ScoreCounts.of(labels, cells)
    sites = ScoreCounts.added(
        [ScoreCounts.of(labels[:9], cells[:9]), ScoreCounts.of(labels[9:], cells[9:])]
    )
    again = ScoreCounts.read(sites.entries(ZOO), ZOO)
    for other in (sites, again):
        np.testing.assert_array_equal(whole.labels, other.labels)
        np.testing.assert_array_equal(whole.counts, other.counts)
    met = whole.guarantee_of([1.0, 0.5, 0.0], ZOO)
    assert met[0] <= 1 and met[0] >= met[1] >= met[2] == 0.0
    for allowed in (None, np.isin(ZOO.leaves, [ZOO.index(n) for n in ("pug", "fox", "lion")])):
        for share in (0.1, 0.3, 0.5):  # what meets a guarantee is what reaches its threshold
            with suppress(PredictionError):
                enough = whole.threshold(share, ZOO, allowed)
                just = whole.guarantee_of([enough, np.nextafter(enough, 0) - 1e-9], ZOO, allowed)
                assert just[0] >= share - 1e-9 and just[1] < share
    for spoilt in ({"pug": [[CELLS, 1]]}, {"pug": [[0, -1]]}, {"pug": [[0, 1.5]]}):
        with pytest.raises(ValueError):
            ScoreCounts.read(spoilt, ZOO)

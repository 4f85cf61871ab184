"""Labellers who confuse siblings, against their formula leaf by leaf (method, section 11)."""

import numpy as np
import pytest

from fedgrain.knowledge.confusions import confusion_share, meant_counts, with_confusions
from fedgrain.knowledge.labeller import labeller_model
from small_federation import NODE, TREE, known

MASK = known("a", "b", "a1", "a2", "b1")
WRITES = labeller_model(TREE, MASK[None], 0.3).writes(0)


def by_hand(share):
    """T' [nodes, leaves]: what is meant, or one of its siblings, all alike."""
    table = np.zeros((len(TREE), 6))
    for column, leaf in enumerate(TREE.leaves.tolist()):
        for depth, node in enumerate(TREE.path(leaf).tolist()):
            above = TREE.parents[node]
            siblings = [v for v in TREE.children(above).tolist() if v != node] if node else []
            table[node, column] += WRITES[column, depth] * (1 - share if siblings else 1)
            for other in siblings:
                table[other, column] += WRITES[column, depth] * share / len(siblings)
    return table


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_what_is_written_is_what_is_meant_or_a_sibling(share):
    nodes = np.arange(len(TREE))
    found = with_confusions(TREE, WRITES, nodes, share)
    np.testing.assert_allclose(found.table, by_hand(share), atol=1e-12)
    np.testing.assert_allclose(found.table.sum(0), 1.0)  # every leaf is labelled somehow
    few = with_confusions(TREE, WRITES, np.array([NODE["a"], NODE["a2"]]), share)
    np.testing.assert_allclose(few.table, by_hand(share)[[NODE["a"], NODE["a2"]]], atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
def test_the_share_of_confusions_is_found(share):
    rng = np.random.default_rng(4)
    leaves, table = rng.integers(0, 6, 2000), by_hand(share)
    labels = np.array([rng.choice(len(TREE), p=table[:, leaf]) for leaf in leaves])
    probs = np.full((2000, 6), 0.004)
    probs[np.arange(2000), leaves] = 0.98
    found, counts = meant_counts(TREE, WRITES, labels, probs)
    assert found == pytest.approx(share, abs=0.03)
    assert counts.sum() == pytest.approx(2000)
    by_leaf = np.bincount(leaves, minlength=6)
    meant = by_hand(0.0) @ by_leaf
    written = np.bincount(labels, minlength=len(TREE))
    if share:  # closer to what was meant than what was written
        assert np.abs(counts - meant).sum() < np.abs(written - meant).sum()


def test_em_for_the_share_never_lowers_the_likelihood():
    rng = np.random.default_rng(1)
    own, other = rng.random(300), rng.random(300)
    share = confusion_share(own, other)

    def posterior(d):
        prior = np.log(d) + 49 * np.log1p(-d)
        return np.log((1 - d) * own + d * other).sum() + prior

    grid = np.linspace(0.001, 0.999, 999)
    assert posterior(share) >= max(map(posterior, grid)) - 1e-2

"""A validation score says against what, and being vague earns nothing by the one that decides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrain.scoring import comparable, hierarchical_scores
from fedgrain.scoring.validation_score import (
    combined,
    describe,
    label_weights,
    read_score,
    validation_score,
)
from fedgrain.taxonomy import Taxonomy

TREE = Taxonomy.from_edges(
    [("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")]
)
NODE = {name: TREE.index(name) for name in TREE.ids}


def nodes(*names: str) -> np.ndarray:
    return np.array([NODE[name] for name in names])


def test_the_root_for_everything_looks_good_only_by_the_old_measure() -> None:
    """Nine labels in ten are the root: whoever says only the root has an HF of 0.9."""
    labels = nodes(*["r"] * 9, "a1")
    vague = validation_score(np.full(10, NODE["r"]), labels, TREE, TREE)
    assert vague.hf == pytest.approx(0.9)  # the old measure, after cutting back
    assert (vague.leaf_hf, vague.weighted_hf) == (0.0, 0.0)
    exact = validation_score(nodes(*["b2"] * 9, "a1"), labels, TREE, TREE)
    half = validation_score(nodes(*["b2"] * 9, "a2"), labels, TREE, TREE)
    assert exact.weighted_hf == 1.0 > half.weighted_hf == 0.5 > vague.weighted_hf
    assert half.hf - vague.hf < 0.06  # the old measure hardly tells them apart


def test_who_always_stops_early_is_found_out_by_the_leaves() -> None:
    """The site names two classes, and writes their parents for the rest."""
    labels = nodes("a1", "a1", *["b"] * 8)
    stops = validation_score(nodes("a", "a", *["b"] * 8), labels, TREE, TREE)
    names = validation_score(nodes("a1", "a1", *["b1"] * 8), labels, TREE, TREE)
    assert stops.hf > 0.93 and stops.leaf_hf == pytest.approx(2 / 3)
    assert stops.weighted_hf < names.weighted_hf == names.leaf_hf == names.hf == 1.0


def test_the_weight_of_a_label_is_what_it_tells() -> None:
    weights = label_weights(nodes("r", "a", "a1", "b2"), TREE)
    assert weights.tolist() == [0.0, 0.5, 1.0, 1.0]
    uneven = Taxonomy.from_edges([("r", "a"), ("r", "c"), ("a", "a1"), ("a", "a2"), ("a", "a3")])
    below = np.array([uneven.leaf_counts[uneven.index(name)] for name in ("r", "a", "c")])
    weights = label_weights(np.array([uneven.index(name) for name in ("r", "a", "c")]), uneven)
    assert weights == pytest.approx(1 - np.log(below) / np.log(4))
    single = Taxonomy.from_edges([("r", "only")])
    assert label_weights(np.array([1, 0]), single).tolist() == [1.0, 1.0]


labels_and_answers = st.lists(
    st.tuples(st.sampled_from(range(len(TREE))), st.sampled_from(range(len(TREE)))), min_size=1
)


@given(labels_and_answers)
def test_means_and_counts_are_those_by_hand(pairs) -> None:
    labels, said = (np.array(column) for column in zip(*pairs, strict=True))
    score = validation_score(said, labels, TREE, TREE)
    hf = hierarchical_scores(labels, comparable(said, labels, TREE, TREE), TREE).hf
    at_leaf = [value for value, label in zip(hf, labels, strict=True) if TREE.is_leaf(label)]
    assert (score.samples, score.leaf_samples) == (len(pairs), len(at_leaf))
    assert score.hf == pytest.approx(np.mean(hf))
    assert score.leaf_hf == (pytest.approx(np.mean(at_leaf)) if at_leaf else None)
    weights = label_weights(labels, TREE)
    mean = np.average(hf, weights=weights) if weights.sum() else None
    assert score.weighted_hf == (None if mean is None else pytest.approx(mean))
    parts = [validation_score(said[i : i + 1], labels[i : i + 1], TREE, TREE)
             for i in range(len(labels))]  # fmt: skip
    together = combined(parts)
    for name in ("hf", "samples", "leaf_hf", "leaf_samples", "weighted_hf", "weight"):
        expected = getattr(score, name)
        found = getattr(together, name)
        assert found == (None if expected is None else pytest.approx(expected)), name
    assert read_score(score.entries()) == score


@given(st.lists(st.sampled_from([NODE[n] for n in ("a1", "a2", "b1", "b2")]), min_size=1),
       st.randoms(use_true_random=False))  # fmt: skip
def test_where_all_labels_are_leaves_the_three_are_one_to_the_bit(labels, random) -> None:
    truth = np.array(labels)
    said = np.array([random.randrange(len(TREE)) for _ in labels])
    score = validation_score(said, truth, TREE, TREE)
    assert score.hf == score.leaf_hf == score.weighted_hf
    assert score.samples == score.leaf_samples == score.weight
    halves = [validation_score(said[i::2], truth[i::2], TREE, TREE) for i in (0, 1)
              if len(truth[i::2])]  # fmt: skip
    both = combined(halves)
    assert both.hf == both.leaf_hf == both.weighted_hf


def test_no_samples_are_no_score() -> None:
    assert combined([]) is None and read_score(None) is None
    only_root = validation_score(nodes("a1"), nodes("r"), TREE, TREE)
    assert (only_root.hf, only_root.leaf_hf, only_root.weighted_hf) == (1.0, None, None)
    assert describe(only_root.entries(), only_root.hf) == (
        "validation HF 1.0000 over all, cut back; none of the 1 labels is a leaf"
    )
    leaf = validation_score(nodes("a1"), nodes("a1"), TREE, TREE)
    assert describe(leaf.entries(), leaf.hf) == "validation HF 1.0000 over 1 leaf labels"
    assert describe(None, 0.5, 2) == "validation HF 0.50"

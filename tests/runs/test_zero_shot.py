from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrain import Config
from fedgrain.data.glyphs import glyph_taxonomy
from fedgrain.errors import ConfigError
from fedgrain.preparation.prepare import prepare
from fedgrain.preparation.zero_shot import (
    hide_unseen,
    seen_and_unseen_hf,
    seen_leaves,
    seen_taxonomy,
)
from fedgrain.runs.run import run
from fedgrain.scoring.metrics import hierarchical_scores
from own_parts import few_glyphs
from strategies import trees
from study_parts import some_glyphs

GLYPHS = {"dataset": "study_parts:some_glyphs", "max_children": 4, "clients": 5, "alpha": 0.0}


@given(trees(min_nodes=2), st.integers(0, 5))
def test_half_of_the_leaves_are_seen(tree, seed):
    seen = seen_leaves(tree, seed)
    assert not seen[np.setdiff1d(np.arange(len(tree)), tree.leaves)].any()
    assert seen.sum() == (len(tree.leaves) + 1) // 2
    assert np.array_equal(seen, seen_leaves(tree, seed))
    small = seen_taxonomy(tree, seed)
    assert {small.ids[n] for n in small.leaves} == {tree.ids[n] for n in np.flatnonzero(seen)}
    assert not (small.child_counts[1:] == 1).any()
    for node in range(1, len(small)):  # who is above whom is as in the whole tree
        above, below = small.ids[small.parents[node]], small.ids[node]
        assert tree.is_ancestor(tree.index(above), tree.index(below))


def test_seeds_see_other_classes():
    tree = glyph_taxonomy()
    assert (seen_leaves(tree, 1) != seen_leaves(tree, 2)).any()


@pytest.mark.parametrize("validation", ["server", "clients"])
def test_no_unseen_class_in_training_validation_or_h(validation):
    config = Config(**GLYPHS, zero_shot=True, validation=validation, seed=3)
    prepared = prepare(config)
    data, federation = prepared.data, prepared.federation
    unseen = np.setdiff1d(data.taxonomy.leaves, np.flatnonzero(seen_leaves(data.taxonomy, 3)))
    assert len(unseen) == 16
    assert not {data.taxonomy.ids[n] for n in unseen} & set(federation.taxonomy.ids)
    parts = [client.train for client in federation.clients]
    parts += [client.validation for client in federation.clients if client.validation]
    parts += [federation.validation] if federation.validation else []
    used = np.concatenate([part.indices for part in parts])
    assert len(used) == len(set(used.tolist())) == 800  # all there is of the seen classes
    assert not np.isin(data.labels[used], unseen).any()
    for part in parts:  # without skew everyone writes the leaf itself
        ids = [federation.taxonomy.ids[n] for n in part.labels]
        assert ids == [data.taxonomy.ids[n] for n in data.labels[part.indices]]
    assert np.isin(data.labels[prepared.test], unseen).sum() == 320  # and all are tested
    assert federation.full_taxonomy == glyph_taxonomy()


def test_zero_shot_on_glyphs_beats_the_constant_prediction_of_its_training_images():
    """The constant is the node that scores best on what training may see.

    It is not the best in hindsight: for seed 47 one leaf scores 0.459 on the unseen classes, and
    the model 0.358, 0.489 and 0.409 after 6, 8 and 11 rounds, so that one is not always beaten.
    """
    result = run(Config(**GLYPHS, zero_shot=True, head="flat-softmax", rounds=6, lr=0.1))
    tree, data = glyph_taxonomy(), some_glyphs()
    seen = seen_leaves(tree, 47)
    truth = data.labels[data.split_indices("test")]
    trained = data.labels[data.split_indices("train")]

    def hf(truths, node):
        return hierarchical_scores(truths, np.full(len(truths), node), tree).hf.mean()

    nodes = result.model.taxonomy.numbers_in(tree)
    constant = max(nodes, key=lambda node: hf(trained[seen[trained]], node))
    assert result.values["unseen_hf"] > hf(truth[~seen[truth]], constant)
    assert result.values["seen_hf"] > hf(truth[seen[truth]], constant)
    assert result.values["seen_hf"] > result.values["unseen_hf"]
    share = seen[truth].mean()
    both = share * result.values["seen_hf"] + (1 - share) * result.values["unseen_hf"]
    assert result.hf == pytest.approx(both)


def test_scores_by_hand():
    tree = glyph_taxonomy()
    seen = np.flatnonzero(seen_leaves(tree, 47))
    unseen = np.setdiff1d(tree.leaves, seen)
    truth = np.array([seen[0], unseen[0], unseen[0]])
    found = seen_and_unseen_hf(np.array([seen[0], unseen[0], 0]), truth, tree, tree, 47)
    assert found == {"seen_hf": 1.0, "unseen_hf": 0.5}
    found = seen_and_unseen_hf(np.array([0]), truth[:1], tree, tree, 47)
    assert found == {"seen_hf": 0.0, "unseen_hf": None}


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ConfigError, match="zero_shot needs alpha 0"):
        Config(zero_shot=True)
    with pytest.raises(ConfigError, match="knowledge inferred has no meaning"):
        Config(zero_shot=True, alpha=0.0, knowledge="inferred")
    data = few_glyphs()
    labels = data.labels.copy()
    labels[0] = 0
    with pytest.raises(ConfigError, match="needs a leaf class for every image"):
        hide_unseen(replace(data, labels=labels), 1)

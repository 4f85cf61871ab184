from dataclasses import replace

import numpy as np
import pytest

from fedgrain.data import LabelledImages, Normalisation
from fedgrain.errors import DataError
from fedgrain.taxonomy import Taxonomy, coarsen

TREE = Taxonomy.from_edges([("a", "b"), ("a", "c"), ("b", "d"), ("b", "e")])  # a b d e c


def few(count: int = 6) -> LabelledImages:
    generator = np.random.default_rng(0)
    return LabelledImages(
        name="few",
        images=generator.integers(0, 256, (count, 4, 5, 3), dtype=np.uint8),
        labels=np.arange(count, dtype=np.int32) % len(TREE),
        taxonomy=TREE,
        splits=np.array([0, 0, 0, 0, 1, 1], np.int8)[:count],
        split_names=("train", "test"),
    )


def test_knows_its_size_and_splits():
    data = few()
    assert (len(data), data.size, data.channels) == (6, (4, 5), 3)
    assert data.split_counts == {"train": 4, "test": 2}
    assert data.split_indices("test").tolist() == [4, 5]


def test_normalisation_is_the_formula():
    constants = Normalisation((0.1, 0.2, 0.3), (0.5, 0.25, 0.2))
    images = few().images
    expected = (images / 255 - np.array([0.1, 0.2, 0.3])) / np.array([0.5, 0.25, 0.2])
    assert constants.apply(images).dtype == np.float32
    np.testing.assert_allclose(constants.apply(images), expected, atol=1e-5)


def test_a_run_of_numbers_is_a_view_and_anything_else_a_copy():
    data = few()
    assert np.shares_memory(data.of_split("train").images, data.images)
    shuffled = data.subset(np.array([5, 0]))
    assert not np.shares_memory(shuffled.images, data.images)
    np.testing.assert_array_equal(shuffled.images, data.images[[5, 0]])
    assert shuffled.labels.tolist() == [0, 0] and shuffled.splits.tolist() == [1, 0]
    assert len(data.subset(np.array([], np.int64))) == 0


def test_subset_takes_clients_and_annotators_along():
    numbers = np.array([0, 1, -1, 1, 0, 0], np.int32)
    data = replace(few(), clients=numbers, client_names=("x", "y"), annotators=numbers,
                   annotator_names=("p", "q"))  # fmt: skip
    part = data.subset(np.array([3, 1]))
    assert part.clients is not None and part.clients.tolist() == [1, 1]
    assert part.annotators is not None and part.annotators.tolist() == [1, 1]


def test_labels_move_to_the_nearest_kept_ancestor():
    coarse = TREE.keep(np.array([node != "b" for node in TREE.ids]))
    moved = few(5).in_taxonomy(coarse)
    assert [coarse.ids[label] for label in moved.labels] == ["a", "a", "d", "e", "c"]


def test_labels_follow_a_real_coarsening():
    coarse = coarsen(TREE, 3).taxonomy
    assert "b" not in coarse  # else this test shows nothing
    moved = few(5).in_taxonomy(coarse)
    assert [coarse.ids[label] for label in moved.labels] == ["a", "a", "d", "e", "c"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.zeros((6, 4, 4, 3))}, "must be uint8"),
        ({"images": np.zeros((6, 4, 4), np.uint8)}, "must be uint8"),
        ({"images": np.zeros((6, 4, 4, 1), np.uint8)}, "does not fit 1 channels"),
        ({"labels": np.zeros(5, np.int32)}, "labels must be int32"),
        ({"labels": np.zeros(6, np.int64)}, "labels must be int32"),
        ({"labels": np.full(6, 5, np.int32)}, "labels must lie between 0 and 4"),
        ({"splits": np.full(6, 2, np.int8)}, "splits must lie between 0 and 1"),
        ({"clients": np.zeros(6, np.int32)}, "clients must lie between -1 and -1"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        replace(few(), **change)


def test_an_unknown_split_names_those_there_are():
    with pytest.raises(DataError, match=r"no split 'valid'; it has train, test"):
        few().of_split("valid")

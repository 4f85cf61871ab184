import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrain.data import (
    partition_dirichlet,
    partition_given,
    partition_iid,
    split_validation,
)
from fedgrain.errors import DataError

seeds = st.integers(0, 2**32 - 1)
class_counts = st.lists(st.integers(2, 30), min_size=1, max_size=12)


def labels_of(counts: list[int], seed: int = 0) -> np.ndarray:
    labels = np.repeat(np.arange(len(counts)) * 3, counts)
    return np.random.default_rng(seed).permutation(labels)


@given(class_counts, st.floats(0.05, 0.95), seeds)
def test_validation_takes_the_share_of_every_class(counts, share, seed):
    labels = labels_of(counts, seed % 100)
    train, validation = split_validation(labels, share, seed=seed)
    assert sorted([*train, *validation]) == list(range(len(labels)))
    for number, count in enumerate(counts):
        taken = int(np.sum(labels[validation] == 3 * number))
        assert abs(taken - share * count) <= 0.5 + 1e-9 or taken in (1, count - 1)
        assert 1 <= taken <= count - 1


def test_eight_to_two_exactly():
    labels = labels_of([500] * 4)
    train, validation = split_validation(labels, seed=47)
    assert np.bincount(labels[train]).tolist()[::3] == [400] * 4
    assert np.bincount(labels[validation]).tolist()[::3] == [100] * 4


def test_another_seed_another_split():
    labels = labels_of([50] * 4)
    first = split_validation(labels, seed=1)[1]
    assert np.array_equal(first, split_validation(labels, seed=1)[1])
    assert not np.array_equal(first, split_validation(labels, seed=2)[1])


def test_the_image_of_a_class_that_has_only_one_is_trained_on():
    labels = np.array([0, 0, 1, 2, 2, 3])
    names = ["ash", "birch", "cedar", "date"]
    with pytest.warns(UserWarning, match="2 classes have a single image, .* validate: birch, date"):
        train, validation = split_validation(labels, seed=0, names=names)
    assert labels[train].tolist() == [0, 1, 2, 3] and labels[validation].tolist() == [0, 2]


def test_where_every_class_has_one_image_any_are_held_out():
    with pytest.warns(UserWarning, match="every class has a single image: 20% of the images"):
        train, validation = split_validation(np.arange(10), seed=0)
    assert sorted([*train, *validation]) == list(range(10)) and len(validation) == 2
    with pytest.raises(DataError, match="1 image to train on cannot be split"):
        split_validation(np.array([3]), seed=0)


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share):
    with pytest.raises(DataError, match="between 0 and 1"):
        split_validation(np.array([0, 0]), share, seed=0)


@given(st.integers(1, 200), st.integers(1, 20), seeds)
def test_iid_parts_are_equal_disjoint_and_complete(count, clients, seed):
    clients = min(clients, count)
    parts = partition_iid(count, clients, seed=seed)
    assert len(parts) == clients
    assert sorted(np.concatenate(parts)) == list(range(count))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_iid_is_a_shuffle():
    parts = partition_iid(1000, 2, seed=3)
    assert 400 < np.sum(parts[0] < 500) * 2 < 600 and not np.array_equal(parts[0], np.arange(500))


@given(class_counts, st.integers(1, 10), st.floats(1e-6, 1e6), seeds)
def test_dirichlet_parts_are_disjoint_complete_and_never_empty(counts, clients, spread, seed):
    labels = labels_of(counts)
    clients = min(clients, len(labels))
    parts = partition_dirichlet(labels, clients, spread, seed=seed)
    assert len(parts) == clients and min(map(len, parts)) >= 1
    assert sorted(np.concatenate(parts)) == list(range(len(labels)))


def test_concentration_goes_from_one_owner_to_equal_shares():
    labels = np.repeat(np.arange(20), 500)
    largest_share = {}
    for concentration in (0.001, 1.0, 1e6):
        parts = partition_dirichlet(labels, 5, concentration, seed=0)
        table = np.array([np.bincount(labels[part], minlength=20) for part in parts])
        largest_share[concentration] = (table.max(axis=0) / 500).mean()
    assert largest_share[0.001] > 0.98
    assert 0.35 < largest_share[1.0] < 0.6  # expected: (1 + 1/2 + ... + 1/5) / 5 = 0.457
    assert largest_share[1e6] < 0.21


def test_dirichlet_shares_have_the_distributions_mean_and_variance():
    labels = np.repeat(np.arange(2000), 100)
    table = np.array(
        [
            np.bincount(labels[p], minlength=2000)
            for p in partition_dirichlet(labels, 4, 0.5, seed=0)
        ]
    )
    shares = table / 100
    assert shares.mean(axis=1) == pytest.approx([0.25] * 4, abs=0.02)
    # variance of a share: (1/4)(3/4) / (4 * 0.5 + 1) = 0.0625
    assert shares.var(axis=1) == pytest.approx([0.0625] * 4, abs=0.006)


def test_the_manifest_decides():
    parts = partition_given(np.array([1, 0, 1, 1], np.int32), ("a", "b"))
    assert [part.tolist() for part in parts] == [[1], [0, 2, 3]]
    with pytest.raises(DataError, match="1 of 2 images name no client"):
        partition_given(np.array([0, -1], np.int32), ("a",))
    with pytest.raises(DataError, match="names no clients"):
        partition_given(None, ())


def test_impossible_partitions_are_refused():
    with pytest.raises(DataError, match="3 images cannot be divided among 4 clients"):
        partition_iid(3, 4, seed=0)
    with pytest.raises(DataError, match="at least one client"):
        partition_iid(3, 0, seed=0)
    with pytest.raises(DataError, match="at least 1e-6, not 0"):
        partition_dirichlet(np.array([0, 0]), 1, 0, seed=0)


def test_the_same_in_another_process_and_hash_seed():
    code = (
        "import numpy as np; from fedgrain.data import *\n"
        "labels = np.arange(300) % 7\n"
        "print(split_validation(labels, seed=5)[1].tolist(),"
        " [p.tolist() for p in partition_iid(300, 7, seed=5)],"
        " [p.tolist() for p in partition_dirichlet(labels, 4, 0.3, seed=5)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "99")
    }
    labels = np.arange(300) % 7
    here = (
        split_validation(labels, seed=5)[1].tolist(),
        [p.tolist() for p in partition_iid(300, 7, seed=5)],
        [p.tolist() for p in partition_dirichlet(labels, 4, 0.3, seed=5)],
    )
    assert outputs == {" ".join(map(str, here)) + "\n"}

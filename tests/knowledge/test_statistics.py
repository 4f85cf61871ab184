import numpy as np
import pytest

from fedgrain.knowledge import Knowledge, knowledge_statistics, relational_neighbours
from fedgrain.taxonomy import coarsen, dataset_taxonomy


def test_by_hand(animals):
    known = np.isin(np.array(animals.ids), ["animal", "bird", "owl"])[None]
    lone = np.isin(np.array(animals.ids), ["animal"])[None]
    knowledge = Knowledge(animals, np.concatenate([known, lone]), ("museum", "novice"))
    measured = knowledge_statistics(knowledge, animals)
    assert measured.known_nodes.tolist() == [3, 1]
    assert measured.known_leaves.tolist() == [1, 0]
    assert measured.leaf_labelled.tolist() == [0.25, 0.0]
    # W with depths from 1: animal-bird 2/3, animal-owl 2/4, bird-owl 4/5
    assert measured.mean_similarity[0] == pytest.approx((2 / 3 + 1 / 2 + 4 / 5) / 3)
    assert np.isnan(measured.mean_similarity[1])
    assert measured.labelled_at_depth[0].tolist() == [0.25, 0.5, 0.25, 0.0]
    museum, novice = measured.as_objects()
    assert museum["name"] == "museum"
    assert museum["known_nodes"] == 3
    assert novice["mean_similarity"] is None


def test_shares_over_depths_sum_to_1():
    full = dataset_taxonomy("cifar100")
    coarse = coarsen(full, 8).taxonomy
    measured = knowledge_statistics(relational_neighbours(full, 10, 0.7, 47), coarse)
    assert measured.labelled_at_depth.shape == (10, coarse.depth.max() + 1)
    assert measured.labelled_at_depth.sum(axis=1) == pytest.approx(1)
    similarity = full.wu_palmer(root_depth=1)
    known = relational_neighbours(full, 10, 0.7, 47).known
    for row in range(10):
        among = similarity[np.ix_(known[row], known[row])]
        off = among[~np.eye(len(among), dtype=bool)]
        assert measured.mean_similarity[row] == pytest.approx(off.mean())

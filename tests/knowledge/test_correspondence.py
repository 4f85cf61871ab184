"""FedMT's table of labels and classes, against its formula (arXiv 2210.02042)."""

import numpy as np

from fedgrain.knowledge.correspondence import correspondence


def test_the_table_is_counts_of_confident_predictions_divided_by_rows():
    """The paper's figure 1: class 5 is predicted three times for label 1 and twice for label 3."""
    rng = np.random.default_rng(3)
    labels, predicted = rng.choice([7, 2, 4], 400), rng.integers(0, 5, 400)
    confident = rng.random(400) < 0.7
    predicted[predicted == 3] = 0  # leaf 3 is never predicted
    found = correspondence(labels, predicted, 5, confident)
    assert found.labels.tolist() == [2, 4, 7]
    for row, label in enumerate([2, 4, 7]):
        for leaf in range(5):
            sure = labels[(predicted == leaf) & confident].tolist()
            expected = sure.count(label) / len(sure) if sure else 1 / 3
            assert found.table[row, leaf] == expected
    figure = correspondence(np.array([1, 1, 1, 3, 3]), np.full(5, 4), 5, np.ones(5, bool))
    assert figure.table[:, 4].tolist() == [0.6, 0.4]


def test_a_site_without_coarse_labels_has_an_empty_table():
    nothing = np.empty(0, np.int64)
    assert correspondence(nothing, nothing, 6, nothing > 0).table.shape == (0, 6)

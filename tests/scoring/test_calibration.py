"""Calibration, by hand."""

import numpy as np
import pytest

from fedgrain.errors import PredictionError
from fedgrain.scoring.calibration import reliability


def test_by_hand():
    found = reliability([0.05, 0.85, 0.89, 0.8, 1.0], [False, True, False, True, True])
    assert found.low.tolist() == [0.0, 0.8, 0.9]
    assert found.count.tolist() == [1, 3, 1]
    assert found.said == pytest.approx([0.05, (0.85 + 0.89 + 0.8) / 3, 1.0])
    assert found.right == pytest.approx([0, 2 / 3, 1])
    assert found.samples == 5
    assert found.error == pytest.approx((0.05 + abs(2.54 - 2)) / 5)
    assert found.too_sure == pytest.approx((0.05 + 0.54) / 5)


def test_a_calibrated_model_has_a_small_error():
    random = np.random.default_rng(0)
    said = random.random(20_000)
    found = reliability(said, random.random(20_000) < said)
    assert found.error < 0.02
    assert abs(found.too_sure) < 0.01


def test_a_bit_over_one_is_one():
    assert reliability([1 + 1e-7], [True]).said.tolist() == [1.0]


@pytest.mark.parametrize(("said", "right"), [([], []), ([0.5], [True, False]), ([[0.5]], [[True]])])
def test_what_is_not_a_list_of_answers_is_refused(said, right):
    with pytest.raises(PredictionError, match="calibration needs"):
        reliability(said, right)

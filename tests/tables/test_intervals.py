import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedgrain.tables.intervals import estimate, incomplete_beta, t_quantile


@pytest.mark.parametrize("probability", [0.6, 0.9, 0.975, 0.9995])
def test_quantiles_are_scipys(probability):
    for freedom in [*range(1, 60), 100, 1000, 12345]:
        expected = stats.t.ppf(probability, freedom)
        assert t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-10)


@given(st.floats(0.1, 200), st.floats(0.1, 200), st.floats(0, 1))
def test_incomplete_beta_is_scipys(a, b, x):
    from scipy.special import betainc

    assert incomplete_beta(a, b, x) == pytest.approx(betainc(a, b, x), rel=1e-8, abs=1e-13)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=12))
def test_intervals_are_scipys(values):
    found = estimate(values)
    error = stats.sem(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.interval is not None
    if error > 1e-12:
        low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=error)
        assert found.interval == pytest.approx((high - low) / 2, rel=1e-9)
    else:
        assert found.interval == pytest.approx(0, abs=1e-11)


def test_two_seeds_have_no_interval():
    assert estimate([0.5, 0.7]).interval is None
    assert estimate([0.5, 0.7]).mean == pytest.approx(0.6)


def test_there_is_no_quantile_below_a_half():
    with pytest.raises(ValueError, match="no quantile"):
        t_quantile(0.5, 3)

"""The mean and the server's step, worked by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedgrain.errors import FederationError
from fedgrain.federated import EarlyStopping, RunningAverage, ServerSettings, server_step


def state(weight: float, variance: float = 1.0, counter: int = 0) -> dict[str, torch.Tensor]:
    """A weight and what a BatchNorm keeps."""
    return {
        "weight": torch.tensor([weight]),
        "running_var": torch.tensor([variance]),
        "num_batches_tracked": torch.tensor(counter),
    }


def test_three_clients_by_hand() -> None:
    average = RunningAverage()
    for value, variance, samples in ((1.0, 2.0, 2), (4.0, 1.0, 3), (-2.0, 4.0, 5)):
        average.add(state(value, variance, counter=9), samples)
    mean = average.mean(state(0.0, 0.0, counter=7))
    assert mean["weight"].item() == pytest.approx((2 * 1 + 3 * 4 - 5 * 2) / 10)
    assert mean["running_var"].item() == pytest.approx((2 * 2 + 3 * 1 + 5 * 4) / 10)
    assert mean["num_batches_tracked"].item() == 7  # an integer stays the server's
    assert mean["weight"].dtype == torch.float32


@given(st.floats(-1e6, 1e6, width=32), st.integers(1, 10**6))
def test_the_mean_of_one_client_is_its_state_to_the_bit(value: float, samples: int) -> None:
    average = RunningAverage()
    average.add(state(value), samples)
    assert torch.equal(average.mean(state(0.0))["weight"], state(value)["weight"])


def test_nothing_to_average() -> None:
    with pytest.raises(FederationError, match="no client sent an update"):
        RunningAverage().mean(state(0.0))


def test_without_an_optimiser_the_server_moves_to_the_mean() -> None:
    moved, memory = server_step(state(3.0), state(1.0), {}, ServerSettings(), {"weight"})
    assert moved["weight"].item() == 1.0
    assert memory == {}


def steps(settings: ServerSettings, means: list[float]) -> list[float]:
    """Where the server's weight goes when the clients' means differ from it by these."""
    server, memory, places = state(1.0), {}, []
    for difference in means:
        mean = state(server["weight"].item() - difference, variance=5.0)
        server, memory = server_step(server, mean, memory, settings, {"weight"})
        assert server["running_var"].item() == 5.0  # buffers are the mean, not stepped
        places.append(server["weight"].item())
    return places


def test_fedavgm() -> None:
    places = steps(ServerSettings("sgd", lr=0.5, momentum=0.9), [0.2, -0.1, 0.4])
    weight, speed, expected = 1.0, 0.0, []
    for gradient in (0.2, -0.1, 0.4):
        speed = 0.9 * speed + gradient
        weight -= 0.5 * speed
        expected.append(weight)
    assert places == pytest.approx(expected, abs=1e-6)


def test_fedadam() -> None:
    places = steps(ServerSettings("adam", lr=0.1), [0.2, -0.1, 0.4])
    weight, first, second, expected = 1.0, 0.0, 0.0, []
    for step, gradient in enumerate((0.2, -0.1, 0.4), start=1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        corrected = (first / (1 - 0.9**step), second / (1 - 0.99**step))
        weight -= 0.1 * corrected[0] / (math.sqrt(corrected[1]) + 1e-3)
        expected.append(weight)
    assert places == pytest.approx(expected, abs=1e-6)


def test_fedadagrad() -> None:
    places = steps(ServerSettings("adagrad", lr=0.1), [0.2, -0.1])
    second, weight, expected = 0.0, 1.0, []
    for gradient in (0.2, -0.1):
        second += gradient**2
        weight -= 0.1 * gradient / (math.sqrt(second) + 1e-3)
        expected.append(weight)
    assert places == pytest.approx(expected, abs=1e-6)


def test_unknown_server_optimiser() -> None:
    with pytest.raises(FederationError, match="choose one of none, sgd, adam, adagrad"):
        server_step(state(1.0), state(0.0), {}, ServerSettings("newton"), {"weight"})


@given(
    st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=1, max_size=30),
    st.integers(1, 4),
    st.sampled_from([0.0, 1e-4, 0.12]),
)
def test_early_stopping_against_a_loop(values: list[float], patience: int, delta: float) -> None:
    history = EarlyStopping(patience=patience, min_delta=delta)
    best, since = None, 0
    for value in values:
        history = history.after(value)
        if best is None or value > best + delta:
            best, since = value, 0
        else:
            since += 1
        assert history.best == best
        assert history.improved == (since == 0)
        assert history.stopped == (since >= patience)

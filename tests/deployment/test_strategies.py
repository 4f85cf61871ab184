"""Flower's strategies by name, each against its formula written out by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from flwr.supercore.task_identity import TaskIdentity

from fedgrain.config.config import Config
from fedgrain.deployment.strategies import ROBUST, STEPPING, average_by
from fedgrain.errors import DeploymentError
from fedgrain.federated.averaging import RunningAverage, ServerSettings, State

PARAMETERS = frozenset({"weight", "bias"})
CONFIG = Config(server_lr=0.7, server_momentum=0.8)
Array = np.ndarray


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def state(rng: np.random.Generator) -> State:
    return {
        "weight": torch.from_numpy(rng.normal(size=(3, 4)).astype(np.float32)),
        "bias": torch.from_numpy(rng.normal(size=3).astype(np.float32)),
        "running_var": torch.from_numpy(rng.uniform(1, 2, 3).astype(np.float32)),
        "counter": torch.tensor(int(rng.integers(100))),
    }


def rounds(name: str, clients: int, count: int) -> list[tuple[State, list[State], Array, State]]:
    """Run some rounds; return (server before, updates, weights, server after) of each."""
    rng, new = np.random.default_rng(3), average_by(name, CONFIG, PARAMETERS)
    server, memory, found = state(rng), {}, []
    for _ in range(count):
        updates = [state(rng) for _ in range(clients)]
        samples = rng.integers(5, 50, clients)
        average = new()
        for update, weight in zip(updates, samples, strict=True):
            average.add(update, float(weight))
        copy = {n: v.clone() for n, v in memory.items()}  # as a checkpoint would give it back
        after, memory = average.step(server, copy, ServerSettings(), PARAMETERS)
        found.append((server, updates, samples, after))
        server = after
    return found


def numbers(value: torch.Tensor) -> Array:
    return value.double().numpy()


def weighted(updates: list[State], samples: Array, name: str) -> Array:
    stacked = np.stack([numbers(update[name]) for update in updates])
    return np.tensordot(samples / samples.sum(), stacked, axes=1)


@pytest.mark.parametrize("name", [*STEPPING, *ROBUST])
@pytest.mark.parametrize("clients", [3, 6])
def test_types_counters_and_buffers(name: str, clients: int) -> None:
    for server, updates, samples, after in rounds(name, clients, 2):
        assert list(after) == list(server)
        assert all(after[n].dtype == server[n].dtype for n in server)
        assert after["counter"] == server["counter"]
        if name in STEPPING:
            mean = weighted(updates, samples, "running_var")
            np.testing.assert_allclose(numbers(after["running_var"]), mean, rtol=1e-6)


def avgm(past: dict[str, Array], old: Array, mean: Array, number: int) -> Array:
    """v <- momentum v + (old - mean); new = old - lr v (Hsu et al. 2019)."""
    past["v"] = (old - mean) + (0.8 * past["v"] if "v" in past else 0.0)
    return old - 0.7 * past["v"]


def adam(past: dict[str, Array], old: Array, mean: Array, number: int) -> Array:
    """Reddi et al. 2021, Algorithm 2, with the step corrected for bias as Flower does."""
    delta = mean - old
    past["m"] = 0.9 * past.get("m", 0.0) + 0.1 * delta
    past["v"] = 0.99 * past.get("v", 0.0) + 0.01 * delta**2
    rate = 0.1 * np.sqrt(1 - 0.99 ** (number + 1)) / (1 - 0.9 ** (number + 1))
    return old + rate * past["m"] / (np.sqrt(past["v"]) + 1e-3)


def yogi(past: dict[str, Array], old: Array, mean: Array, number: int) -> Array:
    delta = mean - old
    past["m"] = 0.9 * past.get("m", 0.0) + 0.1 * delta
    v = past.get("v", np.zeros_like(delta))
    past["v"] = v - 0.01 * delta**2 * np.sign(v - delta**2)
    return old + 0.01 * past["m"] / (np.sqrt(past["v"]) + 1e-3)


@pytest.mark.parametrize(
    ("name", "formula"), [("FedAvgM", avgm), ("FedAdam", adam), ("FedYogi", yogi)]
)
def test_stepping_strategies_over_three_rounds(name: str, formula: Callable[..., Array]) -> None:
    pasts: dict[str, dict[str, Array]] = {"weight": {}, "bias": {}}
    for number, (server, updates, samples, after) in enumerate(rounds(name, 3, 3), start=1):
        for key, past in pasts.items():
            mean = weighted(updates, samples, key)
            expected = formula(past, numbers(server[key]), mean, number)
            np.testing.assert_allclose(numbers(after[key]), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("clients", [3, 6])
def test_median(clients: int) -> None:
    ((_, updates, _, after),) = rounds("FedMedian", clients, 1)
    for key in ("weight", "bias", "running_var"):
        values = np.sort([numbers(update[key]) for update in updates], axis=0)
        middle = values[(clients - 1) // 2] / 2 + values[clients // 2] / 2
        np.testing.assert_allclose(numbers(after[key]), middle, rtol=1e-6)


@pytest.mark.parametrize("clients", [3, 6])
def test_trimmed_mean_cuts_a_fifth_at_either_end(clients: int) -> None:
    ((_, updates, _, after),) = rounds("FedTrimmedAvg", clients, 1)
    cut = {3: 0, 6: 1}[clients]
    for key in ("weight", "bias", "running_var"):
        values = np.sort([numbers(update[key]) for update in updates], axis=0)
        kept = values[cut : clients - cut]
        np.testing.assert_allclose(numbers(after[key]), kept.mean(axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clients", [3, 6])
def test_krum_takes_the_client_nearest_to_its_neighbours(clients: int) -> None:
    ((_, updates, _, after),) = rounds("Krum", clients, 1)
    keys = ("weight", "bias", "running_var")
    flat = [np.concatenate([numbers(u[key]).ravel() for key in keys]) for u in updates]
    far = np.zeros((clients, clients))
    for one, two in itertools.permutations(range(clients), 2):
        far[one, two] = np.sum((flat[one] - flat[two]) ** 2)
    scores = [np.sort(np.delete(far[k], k))[: clients - 2].sum() for k in range(clients)]
    chosen = updates[int(np.argmin(scores))]
    for key in keys:
        np.testing.assert_allclose(numbers(after[key]), numbers(chosen[key]), rtol=1e-6)


def test_ours_is_the_default_and_unknown_names_are_told() -> None:
    assert average_by("ours", CONFIG, PARAMETERS) is RunningAverage
    with pytest.raises(DeploymentError, match="there is no strategy 'FedBest'; choose one of ours"):
        average_by("FedBest", CONFIG, PARAMETERS)
    with pytest.raises(DeploymentError, match="both step the server"):
        average_by("FedAdam", Config(server_optimizer="adam"), PARAMETERS)

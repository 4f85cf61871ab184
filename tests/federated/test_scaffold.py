"""SCAFFOLD against its formulas, written out by hand."""

from dataclasses import replace

import pytest
import torch

from fedgrain.config.config import Config
from fedgrain.errors import ConfigError
from fedgrain.federated import LocalSettings, TrainingSettings
from fedgrain.federated.fedavg import FedAvg
from fedgrain.federated.scaffold import Scaffold
from fedgrain.federated.schedules import Schedule
from small_federation import engine, federation

LABELS = [["a1", "b2", "c", "a3"], ["a2", "b1", "c", "a1", "b2", "a3"], ["c", "c", "a1"]]
TRAINING = TrainingSettings(join_ratio=1.0, local=LocalSettings(lr=0.1, batch=2))


def test_two_rounds_equal_the_formulas() -> None:
    small = engine(federation(LABELS), TRAINING)
    algorithm, trainer, names = Scaffold(TRAINING), small.trainer, small.parameters
    state, zero = algorithm.init(trainer.model.initial), dict.fromkeys(names, torch.tensor(0.0))
    weights, control, own = dict(trainer.model.initial), dict(zero), [dict(zero) for _ in LABELS]
    for number in (1, 2):
        state, report = algorithm.apply(state, small)
        assert (report.stage, report.round) == ("scaffold", number)
        ends = []
        for client, labels in enumerate(LABELS):
            correction = {n: (control[n] - own[client][n]).expand_as(weights[n]) for n in names}
            ends.append(trainer.train(number, client, weights, None, correction).state)
            steps = -(-len(labels) // 2)
            own[client] = {
                n: own[client][n] - control[n] + (weights[n] - ends[-1][n]) / (steps * 0.1)
                for n in names
            }
        total = sum(map(len, LABELS))
        weights = {
            n: sum(end[n] * len(labels) / total for end, labels in zip(ends, LABELS, strict=True))
            for n in weights
        }
        control = {n: sum(c[n] for c in own) / len(LABELS) for n in names}
        for n in names:  # everyone takes part, so c is the mean of all c_i
            torch.testing.assert_close(state.fedavg.weights[n], weights[n], atol=1e-6, rtol=0)
            torch.testing.assert_close(state.control[n], control[n], atol=1e-5, rtol=0)
            for client in range(len(LABELS)):
                found = state.of_clients[client][n]
                torch.testing.assert_close(found, own[client][n], atol=1e-5, rtol=0)


def test_a_client_that_sits_out_keeps_its_variate_and_the_first_round_is_fedavg() -> None:
    settings = replace(TRAINING, join_ratio=0.34)
    small = engine(federation(LABELS), settings)
    first, _ = Scaffold(settings).apply(Scaffold(settings).init(small.model.initial), small)
    plain, _ = FedAvg(settings).apply(FedAvg(settings).init(small.model.initial), small)
    assert all(torch.equal(first.fedavg.weights[n], plain.weights[n]) for n in plain.weights)
    (client,) = first.of_clients
    for name, value in first.control.items():
        share = first.of_clients[client][name] / len(LABELS)
        torch.testing.assert_close(value, share, atol=1e-7, rtol=0)


def test_a_stored_state_goes_on_to_the_same_bits() -> None:
    small = engine(federation(LABELS), TRAINING)
    algorithm = Scaffold(TRAINING)
    state, _ = algorithm.apply(algorithm.init(small.model.initial), small)
    again = algorithm.decode(algorithm.encode(state))
    one, two = algorithm.apply(state, small)[0], algorithm.apply(again, small)[0]
    assert one.of_clients.keys() == two.of_clients.keys()
    for name in small.parameters:
        assert torch.equal(one.fedavg.weights[name], two.fedavg.weights[name])
        assert torch.equal(one.control[name], two.control[name])


def test_what_it_cannot_train_is_refused() -> None:
    with pytest.raises(ConfigError, match="momentum"):
        Scaffold(replace(TRAINING, local=LocalSettings(momentum=0.9)))
    with pytest.raises(ConfigError, match="learning rate"):
        Scaffold(replace(TRAINING, local=LocalSettings(lr=0.0)))
    stops = Schedule("step", every=2, factor=0.0)
    with pytest.raises(ConfigError, match="set lr and step_factor above 0"):
        Scaffold(replace(TRAINING, schedule=stops))
    Scaffold(replace(TRAINING, rounds=2, schedule=stops))  # never gets there
    with pytest.raises(ConfigError, match="step_factor is 0, but scaffold divides by the learning"):
        Config(algorithm="scaffold", schedule="step", step_factor=0.0)


def test_a_cosine_ends_above_zero() -> None:
    settings = replace(TRAINING, rounds=100_000, schedule=Schedule("cosine"))
    assert settings.local_in(settings.rounds).lr > 0
    Scaffold(settings)

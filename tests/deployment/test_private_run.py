"""Noise and a strategy of Flower's over a real network, against the formula in one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")
pytest.importorskip("dp_accounting", reason="not installed: pip install 'fedgrain[dp]'")

from fedgrain import Config
from fedgrain.deployment.app import App, write_app
from fedgrain.deployment.privacy import Privacy
from fedgrain.deployment.server_settings import Operation
from fedgrain.engines import ClientTrainer
from fedgrain.federated import TrainingSettings
from fedgrain.federated.averaging import State
from fedgrain.federated.fedavg import FedAvg, FedAvgState
from fedgrain.preparation.prepare import prepare
from fedgrain.runs.checkpoint import load_progress
from flower_network import Network, nothing_left, wait_until

MOMENTUM = 0.9
CONFIG = Config(
    dataset="own_parts:few_glyphs",
    net="own_parts:SmallNet",
    clients=2,
    alpha=0.5,
    max_children=4,
    join_ratio=1.0,
    rounds=2,
    server_momentum=MOMENTUM,
    client_time_limit=100.0,
).complete()
SITES = ["museum", "zoo"]
# so little noise that the strategy's formula shows through; test_privacy.py has noise that protects
PRIVACY = Privacy(noise_multiplier=1e-4, clip=0.2)


def flat(state: State, names: list[str]) -> torch.Tensor:
    return torch.cat([state[name].double().ravel() for name in names])


def expected(trainer: ClientTrainer, names: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights of FedAvgM on clipped updates after two rounds, and with the plain mean.

    v <- momentum v + (old - mean); new = old - v (Hsu et al. 2019); with privacy all sites weigh
    the same. Updates are clipped as one vector, the statistics of the BatchNorm with them.
    """
    state, speed, plain = trainer.model.initial, torch.zeros(()), torch.zeros(())
    floats = [name for name, value in state.items() if value.is_floating_point()]
    for number in (1, 2):
        ways = []
        for client in range(2):
            trained = trainer.train(number, client, state, None).state
            way = flat(trained, floats) - flat(state, floats)
            ways.append(way * min(1.0, PRIVACY.clip / float(way.norm())))
        old = flat(state, floats)
        mean = old + torch.stack(ways).mean(0)
        speed = MOMENTUM * speed + (old - mean)
        moved = torch.where(_chosen(state, floats, names), old - speed, mean)
        plain, start, new = mean, 0, dict(state)
        for name in floats:
            end = start + state[name].numel()
            new[name] = moved[start:end].reshape(state[name].shape).float()
            start = end
        state = new
    return flat(state, names), plain[_chosen(state, floats, names)]


def _chosen(state: State, floats: list[str], names: list[str]) -> torch.Tensor:
    return torch.cat([torch.full((state[name].numel(),), name in names) for name in floats])


def test_noise_and_a_strategy_over_a_network(tmp_path: Path) -> None:
    operation = Operation(SITES, tmp_path / "run", strategy="FedAvgM", privacy=PRIVACY)
    write_app(tmp_path / "app", App(CONFIG, None), operation)
    result = tmp_path / "run" / "result.json"
    with Network(tmp_path / "network") as network:
        for number, site in enumerate(SITES):
            network.node(site, f'partition-id={number} ledger="{tmp_path / site}"')
        network.run(tmp_path / "app", "run")
        wait_until(result.exists, "the run ends")
        again = network.run(tmp_path / "app", "again", "strategy='FedAdam'")
        sentence = 'the run was started with strategy "FedAvgM", not "FedAdam"'
        wait_until(lambda: f"fedgrain: error: {operation.run_folder}: {sentence}" in again.text(),
                   "another strategy is refused")  # fmt: skip
    nothing_left(f"FLWR_HOME={network.home}")

    told = json.loads(result.read_text())
    assert told["strategy"] == "FedAvgM"
    assert told["privacy"]["releases_by_site"] == {"museum": 2, "zoo": 2}
    assert told["privacy"]["epsilon"] == PRIVACY.epsilon(2)
    assert [len((tmp_path / site).read_text().splitlines()) for site in SITES] == [2, 2]
    state = load_progress(tmp_path / "run" / "state.safetensors", FedAvg(TrainingSettings())).state
    assert isinstance(state, FedAvgState)

    prepared = prepare(CONFIG)
    trainer = ClientTrainer(prepared.federation, prepared.spec, prepared.settings)
    names = [name for name in trainer.model.initial if name in trainer.model.parameters]
    formula, plain = expected(trainer, names)
    rest = flat(state.weights, names) - formula
    # the noise of the second round, and 1 + momentum times that of the first; of two sites' mean
    deviation = PRIVACY.noise_multiplier * PRIVACY.clip * ((1 + (1 + MOMENTUM) ** 2) / 2) ** 0.5
    assert float(rest.std()) == pytest.approx(deviation, rel=0.2)
    assert float((plain - formula).std()) > 5 * deviation  # the momentum is not in the noise

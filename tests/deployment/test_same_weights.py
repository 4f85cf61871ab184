"""The same bytes as in one process, over a real SuperLink and SuperNodes.

A worker is killed in the first round, and after the third everything at once: the server's process,
the SuperLink, and all SuperNodes.

The net is a pretrained trunk whose last block is trained; every site stores activations below it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")
if find_spec("timm") is None:
    pytest.skip("timm is not installed: pip install 'fedgrain[timm]'", allow_module_level=True)

from safetensors.torch import save_file

from fedgrain import Config, run
from fedgrain.deployment.app import App, write_app
from fedgrain.deployment.server_settings import Operation
from fedgrain.errors import RunError
from fedgrain.federated import TrainingSettings
from fedgrain.federated.averaging import State
from fedgrain.federated.fedavg import FedAvgState
from fedgrain.federated.fedbdft import BranchesState, FedBDFT
from fedgrain.preparation.trunk import with_weights_hash
from fedgrain.runs.checkpoint import load_progress
from fedgrain.trunks.timm_models import timm_net
from flower_network import Network, Started, command_of, nothing_left, processes_with, wait_until
from trunk_parts import random_weights

CONFIG = Config(
    dataset="own_parts:few_glyphs",
    net="timm:test_efficientnet",
    train="blocks:1",
    image_size=32,
    algorithm="fedbdft",
    supervision="learned",
    clients=3,
    alpha=0.5,
    max_children=4,
    join_ratio=1.0,
    batch=16,
    lr=0.1,
    rounds=3,
    average_rounds=2,
    cycles=1,
    client_time_limit=180.0,
)
SITES = ["museum", "zoo", "herbarium"]


def as_bytes(state: State) -> dict[str, bytes]:
    return {name: value.contiguous().numpy().tobytes() for name, value in state.items()}


def ended(processes: list[int]) -> set[int]:
    return {process for process in processes if not Path(f"/proc/{process}").exists()}


def end(home: Path, program: str, most: int = 9) -> int:
    """Kill processes of a network that run a program; return how many."""
    found = [p for p in processes_with(f"FLWR_HOME={home}") if program in command_of(p)][:most]
    for process in found:
        os.kill(process, signal.SIGKILL)
    return len(found)


def start_sites(network: Network) -> list[Started]:
    return [network.node(site, f"partition-id={number}") for number, site in enumerate(SITES)]


def after_three_rounds(path: Path) -> bool:
    try:
        state = load_progress(path, FedBDFT(TrainingSettings())).state
    except RunError:
        return False
    assert isinstance(state, FedAvgState), "the server was faster than the test"
    return state.round == 3


def test_three_rounds_and_a_cycle_are_byte_equal_though_everything_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDGRAIN_CACHE", str(tmp_path / "cache"))
    save_file(random_weights(timm_net(CONFIG.net)), tmp_path / "weights.safetensors")
    with_trunk = replace(CONFIG, net_weights=str(tmp_path / "weights.safetensors"))
    config = with_weights_hash(with_trunk.complete())
    write_app(tmp_path / "app", App(config, None), Operation(SITES, tmp_path / "run"))
    state = tmp_path / "run" / "state.safetensors"
    with Network(tmp_path / "network") as network:
        nodes = start_sites(network)
        first = network.run(tmp_path / "app", "first")
        wait_until((tmp_path / "run" / "config.toml").exists, "the sites are connected")
        assert end(network.home, "fedgrain.sites.worker", most=1) == 1
        wait_until(lambda: after_three_rounds(state), "three rounds")
        assert end(network.home, "flwr-serverapp") == 1
        for started in (network.link, *nodes, first):
            started.kill()
        shutil.copy(state, tmp_path / "rounds.safetensors")
        assert not (tmp_path / "run" / "result.json").exists()
        network.start_server()
        start_sites(network)
        network.run(tmp_path / "app", "second")
        result = tmp_path / "run" / "result.json"
        wait_until(result.exists, "the resumed run ends")
        assert "finished" not in first.text()
        started = processes_with(f"FLWR_HOME={network.home}")
        assert len(started) >= 4  # the SuperLink, three SuperNodes, and what they started
        assert set(started) <= {*processes_with("FLWR_TELEMETRY_ENABLED=0"), *ended(started)}
    nothing_left(f"FLWR_HOME={network.home}")

    run(replace(config, algorithm="fedavg"), tmp_path / "fedavg", workers=1)
    here = run(config, tmp_path / "fedbdft", workers=1)
    expected = load_progress(
        tmp_path / "fedavg" / "state.safetensors", FedBDFT(TrainingSettings())
    ).state
    found = load_progress(tmp_path / "rounds.safetensors", FedBDFT(TrainingSettings())).state
    assert isinstance(expected, FedAvgState) and isinstance(found, FedAvgState)
    assert as_bytes(found.weights) == as_bytes(expected.weights)
    assert as_bytes(found.best) == as_bytes(expected.best)

    expected = load_progress(
        tmp_path / "fedbdft" / "state.safetensors", FedBDFT(TrainingSettings())
    ).state
    found = load_progress(state, FedBDFT(TrainingSettings())).state
    assert isinstance(expected, BranchesState) and isinstance(found, BranchesState)
    assert list(found.branches) == list(expected.branches)
    assert any(branch.rounds for branch in expected.branches.values())
    for e, branch in expected.branches.items():
        assert as_bytes(found.branches[e].weights) == as_bytes(branch.weights)
        assert found.branches[e].rounds == branch.rounds
    best = (tmp_path / "run" / "best.safetensors").read_bytes()
    assert best == (tmp_path / "fedbdft" / "best.safetensors").read_bytes()
    values = json.loads(result.read_text())
    assert {n: values[n] for n in ("hf", "accuracy")} == {"hf": here.hf, "accuracy": here.accuracy}

    lines = (tmp_path / "run" / "traffic.jsonl").read_text().splitlines()
    traffic = [json.loads(line) for line in lines]
    assert [(line["stage"], line["round"]) for line in traffic] == [
        ("fedavg", 1), ("fedavg", 2), ("fedavg", 3), ("fedbdft", 1),
    ]  # fmt: skip
    assert [line["messages"] for line in traffic] == [6, 6, 6, 6]  # one a site, and its answer

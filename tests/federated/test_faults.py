"""Faults have a kind, errors keep their traceback, and a bug does not look like a bad client."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fedgrain.config.config import Config
from fedgrain.errors import CodeError, DivergedError, FederationError
from fedgrain.federated import LocalSettings, TrainingSettings, Update
from fedgrain.federated.averaging import State
from fedgrain.federated.faults import Fault, Kind, diverged
from fedgrain.federated.fedavg import FedAvg
from fedgrain.federated.fedbdft import FedBDFT
from fedgrain.runs.run import run
from fedgrain.runs.run_folder import RunFolder
from old_folders import without_checksums
from small_federation import engine, federation

SETTINGS: dict[str, Any] = {
    "dataset": "faulty:images",
    "net": "faulty:Net",
    "partition": "manifest",
    "alpha": 0.5,
    "join_ratio": 1.0,
    "rounds": 1,
    "batch": 8,
    "lr": 0.1,
    "seed": 3,
}
TRAINING = TrainingSettings(
    join_ratio=1.0, local=LocalSettings(lr=0.2, batch=4), min_branch_samples=2
)
KINDS = {
    "raise": "error",
    "nan": "not-finite",
    "shape": "misfit",
    "names": "misfit",
}


def test_every_fault_of_a_round_has_its_kind_and_an_error_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTS", ",".join(KINDS))
    run(Config(**SETTINGS), tmp_path / "run", workers=1)
    (line,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    faults = {fault["client"]: fault for fault in json.loads(line)["faults"]}
    assert {client: fault["kind"] for client, fault in faults.items()} == KINDS
    assert faults["raise"]["exception"] == "RuntimeError"
    log = (tmp_path / "run" / "faults.log").read_text()
    assert log.count("Traceback (most recent call last)") == 1  # the others have none
    assert log.startswith("round 1, raise:\nTraceback")
    assert "in misbehave" in log and "RuntimeError: the camera is broken" in log


@pytest.mark.parametrize("workers", [1, 2])
def test_a_mistake_in_the_code_stops_the_run_and_is_not_a_clients(
    workers: int, tmp_path: Path
) -> None:
    config = Config(**{**SETTINGS, "net": "faulty:Broken"})
    with pytest.raises(CodeError, match=r"all 12 clients failed with the same error, TypeError: "):
        run(config, tmp_path / "run", workers=workers)
    log = (tmp_path / "run" / "faults.log").read_text()
    assert log.count("in forward") == 12 and "return logits + None" in log


def test_debug_shows_the_traceback(tmp_path: Path, fedgrain: Any) -> None:
    settings = {**SETTINGS, "net": "faulty:Broken"}
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in settings.items()]
    arguments += ["--workers=1", "--out", tmp_path / "run", "--debug"]
    python_path = os.pathsep.join(p for p in sys.path if p)
    done = fedgrain("run", *arguments, PYTHONPATH=python_path)
    assert done.returncode == 2
    assert "return logits + None" in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert re.match(r"fedgrain: error: round 1: all 12 clients failed with the same error", last)


def test_errors_that_differ_are_the_clients_own() -> None:
    small = engine(federation([["a1", "b1"], ["a2", "c"]]), TRAINING)
    errors = iter([ValueError("one"), OSError("two")] * 2)

    def train(*_: object) -> Update:
        raise next(errors)

    small.trainer.train = train
    with pytest.raises(FederationError, match="0 clients sent an update") as caught:
        FedAvg(TRAINING).apply(FedAvg(TRAINING).init(small.model.initial), small)
    assert not isinstance(caught.value, CodeError)


def test_a_cycle_in_which_every_client_fails_alike_stops_at_once() -> None:
    small = engine(federation([["a1", "a2", "b1", "b2"] * 4] * 2), TRAINING)
    trainer = small.trainer
    state = FedBDFT(TRAINING).decoupled(trainer.model.decouple(trainer.model.initial), small)
    state, _ = FedBDFT(TRAINING).apply(state, small)  # it could be trained before

    def train(number: int, client: int, weights: State, branch: int, _: State | None) -> Update:
        raise AttributeError("no such thing")

    trainer.train = train
    with pytest.raises(CodeError, match="cycle 2: all 2 clients failed with the same error, Attr"):
        FedBDFT(TRAINING).apply(state, small)


def test_divergence_is_a_matter_of_kinds_not_of_words() -> None:
    words = "its update holds NaN or infinite numbers"
    assert diverged([Fault("anything", Kind.NOT_FINITE).line("zoo")])
    assert not diverged([Fault(words, Kind.ERROR).line("zoo")])
    assert not diverged([{"client": "zoo", "fault": words}])  # of a run before faults had kinds
    assert not diverged([])
    settings = TrainingSettings(join_ratio=1.0, local=LocalSettings(lr=1e6, batch=4))
    small = engine(federation([["a1", "b2", "c"]]), settings)
    state = FedAvg(settings).init(small.model.initial)
    with pytest.raises(DivergedError):
        for _ in range(9):
            state, _ = FedAvg(settings).apply(state, small)


def test_a_run_whose_faults_have_no_kind_still_opens(tmp_path: Path) -> None:
    settings = {**SETTINGS, "rounds": 2}
    run(Config(**{**settings, "rounds": 1}), tmp_path / "run", workers=1)
    without_checksums(tmp_path / "run")
    place = RunFolder(tmp_path / "run")
    line = place.metrics_lines()[0] | {"faults": [{"client": "hang", "fault": "it was late"}]}
    place.metrics.write_text(json.dumps(line) + "\n")
    assert run(Config(**settings), tmp_path / "run", workers=1).rounds == 2
    assert place.metrics_lines()[0]["faults"] == [{"client": "hang", "fault": "it was late"}]

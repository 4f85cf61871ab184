"""The same config gives the same bytes: elsewhere, and however often it was stopped or killed."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import fedgrain
from fedgrain import Callback
from fedgrain.config.config_texts import read_config
from fedgrain.runs.run_folder import RunFolder

RUN = """
import sys, fedgrain
from fedgrain.config.config_texts import read_config
fedgrain.run(read_config(sys.argv[1]), sys.argv[2])
"""
DIE_WHILE_WRITING = """
import resource, signal, sys, fedgrain
from pathlib import Path
from fedgrain.config.config_texts import read_config

config, folder, stage, number = sys.argv[1:]

class Limit(fedgrain.Callback):
    '''From this round on the kernel ends the process in the middle of the state's file.'''
    def on_round_end(self, line):
        if line["stage"] == stage and line["round"] == int(number):
            half = Path(folder, "state.safetensors").stat().st_size // 2
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (half, half))

fedgrain.run(read_config(config), folder, [Limit()])
"""


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The rounds without the time they took."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        assert line.pop("seconds") >= 0
    return lines


def assert_same(folder: Path, original: Path) -> None:
    for name in ("best.safetensors", "model.json", "config.toml"):
        assert (folder / name).read_bytes() == (original / name).read_bytes(), name
    assert metrics(folder) == metrics(original)
    mine, other = (RunFolder(f).read_result() for f in (folder, original))
    assert {**mine, "seconds": 0, "core_seconds": 0} == {**other, "seconds": 0, "core_seconds": 0}
    assert not list(folder.glob(".*.part"))


@pytest.fixture(scope="module", params=["fedavg", "fedbdft"])
def original(request, small, tmp_path_factory) -> Path:
    """The folder of a run that nothing disturbed."""
    settings = {
        "fedavg": {
            "server_optimizer": "adam",
            "server_lr": 0.01,
            "head": "flat-softmax",
            "supervision": "learned",
            "labeller": "siblings",
        },
        "fedbdft": {
            "server_optimizer": "sgd",
            "server_momentum": 0.5,
            "crop_and_flip": True,
            "supervision": "learned",
        },
    }
    folder = tmp_path_factory.mktemp(request.param) / "original"
    fedgrain.run(small(algorithm=request.param, **settings[request.param]), folder)
    return folder


def test_another_folder_and_process_and_hash_seed(original, python, tmp_path) -> None:
    """The seed of this process's own hashes is drawn by Python, or set by who runs the tests."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = python(RUN, original / "config.toml", tmp_path / "run", PYTHONHASHSEED=seed)
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "run", original)


class StopAfter(Callback):
    """Stop as Ctrl-C does."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def on_round_end(self, line: dict[str, Any]) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_stopped_after_any_round(original, tmp_path) -> None:
    config = read_config(original / "config.toml")
    for rounds in range(1, len(metrics(original)) + 1):
        folder = tmp_path / str(rounds)
        with pytest.raises(KeyboardInterrupt):
            fedgrain.run(config, folder, [StopAfter(rounds)])
        assert metrics(folder) == metrics(original)[:rounds]
        assert not (folder / "result.json").exists()
        fedgrain.resume(folder, trust_code=True)
        assert_same(folder, original)


def test_stopped_again_and_again(original, tmp_path) -> None:
    config = read_config(original / "config.toml")
    for _ in metrics(original):
        with pytest.raises(KeyboardInterrupt):
            fedgrain.run(config, tmp_path / "run", [StopAfter(1)])
    fedgrain.run(config, tmp_path / "run")
    assert_same(tmp_path / "run", original)


def test_killed_in_the_middle_of_a_round(original, python, tmp_path) -> None:
    """A round of fedavg has 8 steps; step 12 is in the second, step 30 in a cycle of branches."""
    step = 30 if "fedbdft" in (original / "config.toml").read_text() else 12
    environment = {"FEDGRAIN_TEST_KILL_AT_STEP": str(step)}
    done = python(RUN, original / "config.toml", tmp_path / "run", **environment)
    assert done.returncode == -signal.SIGKILL
    begun = metrics(tmp_path / "run")
    assert 0 < len(begun) < len(metrics(original))
    fedgrain.resume(tmp_path / "run", trust_code=True)
    assert_same(tmp_path / "run", original)


def test_killed_in_the_middle_of_writing_the_state(original, python, tmp_path) -> None:
    stages = [(line["stage"], line["round"]) for line in metrics(original)]
    stage, number = stages[-2]
    folder = tmp_path / "run"
    done = python(DIE_WHILE_WRITING, original / "config.toml", folder, stage, number)
    assert done.returncode == -signal.SIGXFSZ, done.stderr
    (part,) = folder.glob(".state.safetensors.*.part")
    assert 0 < part.stat().st_size < (folder / "state.safetensors").stat().st_size
    assert len(metrics(folder)) == len(stages)  # the line was there before the state
    fedgrain.resume(folder, trust_code=True)
    assert_same(folder, original)


def test_killed_before_the_result_is_written(original, tmp_path) -> None:
    config = read_config(original / "config.toml")
    fedgrain.run(config, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    fedgrain.run(config, tmp_path / "run")
    assert_same(tmp_path / "run", original)

"""The engine on real processes: same bits, faults, kills. Nothing of fedgrain is mocked."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import faulty
from fedgrain.arithmetic import one_thread
from fedgrain.config.config import Config
from fedgrain.engines import ClientTrainer, Validator
from fedgrain.engines.processes import ProcessEngine
from fedgrain.engines.shared_images import handle, shared
from fedgrain.errors import RunError
from fedgrain.federated import Task, Update
from fedgrain.federated.engine import checked
from fedgrain.federated.faults import Fault
from fedgrain.preparation.prepare import prepare
from fedgrain.runs.run import run
from warm_processes import WarmProcesses

SETTINGS = {
    "dataset": "faulty:images",
    "net": "faulty:Net",
    "partition": "manifest",
    "alpha": 0.5,
    "join_ratio": 1.0,
    "rounds": 3,
    "cycles": 2,
    "batch": 8,
    "lr": 0.1,
    "seed": 3,
}


def best(folder: Path) -> bytes:
    return (folder / "best.safetensors").read_bytes()


def lines_of(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


SIBLINGS = {"head": "flat-softmax", "supervision": "learned", "labeller": "siblings"}


@pytest.mark.parametrize(
    ("settings", "workers"),
    [(SIBLINGS, 2), ({"algorithm": "fedbdft", "supervision": "learned"}, 3)],
    ids=["siblings", "fedbdft"],
)
def test_the_same_bits_for_1_2_and_3_workers(settings, workers, tmp_path):
    config = Config(**SETTINGS, **settings)
    one = run(config, tmp_path / "1", workers=1)
    result = run(config, tmp_path / "more", workers=workers)
    assert best(tmp_path / "more") == best(tmp_path / "1")
    assert lines_of(tmp_path / "more") == lines_of(tmp_path / "1")
    assert result.hf == one.hf


REASONS = {
    "raise": "RuntimeError: the camera is broken",
    "hang": "exceeded its time limit of 10 s",
    "nan": "its update holds NaN or infinite numbers",
    "huge": "its update ",
    "shape": "its update has head.bias of shape [1], but",
    "names": "its update has other weights than it was sent",
}


def test_a_bad_client_of_each_kind_costs_its_own_update(tmp_path, monkeypatch):
    monkeypatch.setenv("FAULTS", ",".join(REASONS))
    config = Config(**{**SETTINGS, "rounds": 1}, client_time_limit=10.0)
    result = run(config, tmp_path / "run", workers=2)
    (line,) = lines_of(tmp_path / "run")
    found = {fault["client"]: fault["fault"] for fault in line["faults"]}
    assert found.keys() == REASONS.keys()
    for client, reason in REASONS.items():
        assert found[client].startswith(reason)
    others = {"kill engine", "die", "exit"}  # not active
    assert {c["client"] for c in line["clients"]} == {*faulty.GOOD, *others}
    assert result.values["faults"] == len(REASONS)
    assert result.values["retries"] == 0
    assert np.isfinite(result.hf)
    assert all(torch.isfinite(w).all() for w in result.model.net.state_dict().values())


def test_without_enough_clients_the_run_stops_and_can_be_resumed(tmp_path, fedgrain):
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in SETTINGS.items()]
    arguments += ["--min-clients=12", "--workers=1", "--out", tmp_path / "run"]
    python_path = os.pathsep.join(p for p in sys.path if p)
    done = fedgrain("run", *arguments, FAULTS="raise", PYTHONPATH=python_path)
    assert done.returncode == 2
    assert "11 clients sent an update, min_clients is 12" in done.stderr
    assert "the camera is broken" in done.stderr
    assert "Traceback" not in done.stderr
    done = fedgrain("run", *arguments, FAULTS="", PYTHONPATH=python_path)
    assert done.returncode == 0, done.stderr


def test_a_worker_killed_from_outside_is_replaced(tmp_path):
    """FedMT's table, which it learns in round 6, is learned again, and so is the update."""
    prepared = prepare(Config(**SETTINGS, **{**SIBLINGS, "labeller": "fedmt"}))
    prepared = prepared.with_rows(shared(prepared.data.images))
    trainer = ClientTrainer(prepared.federation, prepared.spec, prepared.settings)
    with ProcessEngine(trainer, 2) as engine:
        tasks = [Task(6, client, trainer.model.initial) for client in range(3)]
        first = dict(engine.train(tasks))
        assert all(isinstance(outcome, Update) for outcome in first.values())
        wait_for_workers(engine)
        victims = worker_pids(os.getpid())
        assert len(victims) == 2
        os.kill(victims[0], signal.SIGKILL)
        again = [outcome for _, outcome in engine.train(tasks)]
        assert [told["reason"] for told in engine.retries] == [
            "its worker process died (signal SIGKILL)"
        ]
        with one_thread():
            here = [trainer.train(6, client, trainer.model.initial, None) for client in range(3)]
        for before, *others in zip(first.values(), again, here, strict=True):
            for after in others:
                assert all(torch.equal(before.state[n], after.state[n]) for n in before.state)
        assert set(worker_pids(os.getpid())) - set(victims)
    assert worker_pids(os.getpid()) == []


def test_a_client_whose_worker_is_killed_is_trained_again_to_the_same_bits(tmp_path, monkeypatch):
    config = Config(**{**SETTINGS, "rounds": 2})
    calm = run(config, tmp_path / "calm", workers=1)
    monkeypatch.setenv("FAULTS", "die")
    monkeypatch.setenv("DIE_ONCE", str(tmp_path / "died"))
    result = run(config, tmp_path / "run", workers=2)
    assert (tmp_path / "died").exists()
    assert best(tmp_path / "run") == best(tmp_path / "calm")
    lines = lines_of(tmp_path / "run")
    retry = {"of": "die", "reason": "its worker process died (signal SIGKILL)"}
    assert lines[0].pop("retries") == [retry]
    assert lines == lines_of(tmp_path / "calm")
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (stored["faults"], stored["retries"]) == (0, 1)
    assert (calm.values["faults"], calm.values["retries"]) == (0, 0)
    assert stored["hf"] == calm.hf == result.hf


def test_a_client_whose_worker_dies_every_time_stops_the_run(tmp_path, monkeypatch):
    config = Config(**{**SETTINGS, "rounds": 1})
    monkeypatch.setenv("FAULTS", "exit")
    reason = re.escape("exit: its worker process died (exit code 3), in each of 3 attempts")
    with pytest.raises(RunError, match=reason):
        run(config, tmp_path / "run", workers=2)
    assert worker_pids(os.getpid()) == []
    assert not (tmp_path / "run" / "result.json").exists()
    monkeypatch.setenv("FAULTS", "")
    run(config, tmp_path / "run", workers=1)  # goes on
    run(config, tmp_path / "calm", workers=1)
    assert best(tmp_path / "run") == best(tmp_path / "calm")


def test_stopped_workers_do_not_stop_the_engine():
    """The message is larger than a socket's buffer: sending it to a stopped process waits."""
    prepared = prepare(Config(**SETTINGS))
    prepared = prepared.with_rows(shared(prepared.data.images))
    trainer = ClientTrainer(prepared.federation, prepared.spec, prepared.settings)
    expected = Validator(trainer.federation, trainer.model).validate(trainer.model.initial)
    large = {**trainer.model.initial, "large": torch.zeros(1_000_000)}
    with ProcessEngine(trainer, 2, time_limit=2.0) as engine:
        stop_workers(engine)
        rescue = threading.Timer(60, signal_workers, [signal.SIGCONT])
        rescue.start()
        began = time.monotonic()
        outcomes = [outcome for _, outcome in engine.train([Task(1, c, large) for c in (0, 1)])]
        assert time.monotonic() - began < 40
        assert [fault.reason for fault in outcomes] == ["exceeded its time limit of 2 s"] * 2
        assert engine.retries == []
        stop_workers(engine)
        assert engine.validate(trainer.model.initial) == expected
        reason = "its worker process was stopped for 2 s"
        assert list(engine.retries) == [{"of": "validation", "reason": reason}] * 2
        rescue.cancel()


def test_workers_import_nothing_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    prepared = prepare(Config(**SETTINGS))
    prepared = prepared.with_rows(shared(prepared.data.images))
    trainer = ClientTrainer(prepared.federation, prepared.spec, prepared.settings)
    monkeypatch.chdir(tmp_path)
    with ProcessEngine(trainer, 1) as engine:
        ((_, outcome),) = engine.train([Task(1, 0, trainer.model.initial)])
    assert isinstance(outcome, Update)
    assert not (tmp_path / "ran").exists()


def test_the_workers_validate_too():
    prepared = prepare(Config(**SETTINGS, algorithm="fedbdft"))
    prepared = prepared.with_rows(shared(prepared.data.images))
    trainer = ClientTrainer(prepared.federation, prepared.spec, prepared.settings)
    branches = trainer.model.decouple(trainer.model.initial)
    with ProcessEngine(trainer, 2) as engine:
        expected = engine.validator.validate(trainer.model.initial)
        accuracies = {e: engine.validator.validate_branch(e, b) for e, b in branches.items()}
        trainer.model.net = trainer.model.branch_nets = None  # only the workers can answer now
        assert engine.validate(trainer.model.initial) == expected
        assert engine.branch_accuracies(branches) == accuracies
        assert engine.validate_branches(branches) == expected


def test_updates_that_would_spoil_the_mean():
    weights = {"w": torch.ones(4)}
    task = Task(1, 0, weights)
    assert isinstance(checked(task, Update({"w": torch.full((4,), 3.0)}, 5, 0.1, 1)), Update)
    absurd = checked(task, Update({"w": torch.full((4,), 1e5)}, 5, 0.1, 1))
    assert isinstance(absurd, Fault)
    assert "absurdly large" in absurd.reason
    assert isinstance(checked(task, Update({"w": torch.ones(4).double()}, 5, 0.1, 1)), Fault)


def test_images_are_mapped_and_not_copied(tmp_path):
    stored = np.arange(10 * 4 * 4 * 3, dtype=np.uint8).reshape(10, 4, 4, 3)
    np.save(tmp_path / "images.npy", stored)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    assert shared(mapped) is mapped
    for array in (mapped, mapped[3:7], shared(stored), shared(stored)[2:5]):
        assert np.array_equal(handle(array).open(), array)
    assert not shared(stored).flags.writeable
    copy = shared(stored)
    place = Path(handle(copy[1:]).path)
    assert str(place.readlink()).startswith("/memfd:")  # no name that could be left behind
    del copy
    gc.collect()
    assert not place.is_symlink()  # and it ends with the last array that maps it


def wait_for_workers(engine: ProcessEngine) -> None:
    """Wait until all of them have started."""
    while not all(worker.is_free for worker in engine._pool._workers):
        engine._pool._wait()


def stop_workers(engine: ProcessEngine) -> None:
    wait_for_workers(engine)
    signal_workers(signal.SIGSTOP)


def signal_workers(number: signal.Signals) -> None:
    for pid in worker_pids(os.getpid()):
        os.kill(pid, number)


def worker_pids(parent: int) -> list[int]:
    """Process numbers of the workers of a process, from /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if (
                int(state[1]) == parent
                and b"fedgrain.engines.worker_process" in (entry / "cmdline").read_bytes()
            ):
                found.append(int(entry.name))
        except (OSError, IndexError):
            continue
    return sorted(found)


def all_workers_of(folder: Path) -> list[int]:
    """Workers anywhere on the machine whose environment names the folder of the test."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def killed_run(
    warm: WarmProcesses, point: str, folder: Path, workers: int
) -> subprocess.CompletedProcess:
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in SETTINGS.items()]
    script = Path(__file__).parents[1] / "killed_run.py"
    return warm.python(
        script, point, folder, *arguments, "--algorithm=fedbdft", "--cycles=3",
        f"--workers={workers}", PYTHONPATH=os.pathsep.join(p for p in sys.path if p),
        FEDGRAIN_TEST_FOLDER=str(folder),
    )  # fmt: skip


def wait_for_orphans(folder: Path) -> None:
    """Nobody stays behind, though the engine was killed."""
    deadline = time.monotonic() + 60  # one that still loads torch looks up only then
    while all_workers_of(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert all_workers_of(folder) == []


KILLS = [  # (point, workers); a client trains elsewhere only with two
    ("training:2", 2),  # three rounds of FedAvg, the first stage
    ("averaging:3", 1),
    ("state:1", 1),
    ("metrics:2", 1),
    ("state:2", 1),
    ("averaging:15", 1),  # the second stage begins after 12
    ("metrics:2", 1),
    ("training:10", 2),
    ("state:1", 1),
    ("seconds:0.05", 1),  # at random
]


def test_a_run_killed_again_and_again_gives_the_same_bits(warm, tmp_path):
    whole = killed_run(warm, "never", tmp_path / "whole", 1)
    assert whole.returncode == 0, whole.stderr
    folder = tmp_path / "killed"
    lines = []
    for point, workers in KILLS:
        done = killed_run(warm, point, folder, workers)
        assert f"killed at {point}" in done.stdout.splitlines(), done.stderr
        assert done.returncode == -signal.SIGKILL, done.stderr
        wait_for_orphans(folder)
        written = folder / "metrics.jsonl"
        lines.append(len(written.read_text().splitlines()) if written.exists() else 0)
    assert lines[:6] == [0, 0, 1, 2, 3, 3] and lines[-1] > 4, lines  # three, then cycles
    last = killed_run(warm, "never", folder, 1)
    assert last.returncode == 0, last.stderr
    assert best(folder) == best(tmp_path / "whole")
    assert lines_of(folder) == lines_of(tmp_path / "whole")


def test_killed_by_a_client_in_the_middle_of_its_training(warm, tmp_path):
    """The engine's process dies while a worker is inside a net's forward pass."""
    folder = tmp_path / "run"
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in SETTINGS.items()]
    environment = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                   "FEDGRAIN_TEST_FOLDER": str(folder)}  # fmt: skip
    command = ["run", "--out", folder, *arguments]
    done = warm.fedgrain(*command, "--workers=2", FAULTS="kill engine", **environment)
    assert done.returncode == -signal.SIGKILL
    wait_for_orphans(folder)
    done = warm.fedgrain(*command, "--workers=1", FAULTS="", **environment)
    assert done.returncode == 0, done.stderr
    run(Config(**SETTINGS), tmp_path / "whole", workers=1)
    assert best(folder) == best(tmp_path / "whole")

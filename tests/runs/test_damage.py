"""A bit that flips in any file of a run is noticed, and no other file is touched."""

import logging
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedgrain
from damage import flips
from fedgrain import Callback, checksums, run
from fedgrain.checked_json import read_checked_json
from fedgrain.cli import main
from fedgrain.errors import FedgrainError, RunError
from fedgrain.federated import TrainingSettings
from fedgrain.federated.fedavg import FedAvg
from fedgrain.runs.checkpoint import load_progress
from fedgrain.runs.run_folder import RunFolder
from fedgrain.tensor_files import read_tensors
from old_folders import without_checksums
from own_parts import few_glyphs

TIMES = {"seconds": 0, "core_seconds": 0}  # differ from run to run
READ: dict[str, Callable[[RunFolder], object]] = {
    "best.safetensors": lambda place: read_tensors(place.best),
    "state.safetensors": lambda place: load_progress(place.state, FedAvg(TrainingSettings())),
    "model.json": lambda place: read_checked_json(place.model),
    "result.json": lambda place: place.read_result(),
    "metrics.jsonl": lambda place: place.metrics_lines(),
    "config.toml": lambda place: place.read_config(),
    "environment.json": lambda place: place.read_config(),
}


@pytest.fixture(scope="module")
def finished(small, tmp_path_factory) -> Path:
    return run(small(rounds=2), tmp_path_factory.mktemp("damage") / "run").folder


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    return shutil.copytree(finished, tmp_path / "copy")


class Stop(Callback):
    """Stop as Ctrl-C does."""

    def on_round_end(self, line) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", READ)
def test_a_flipped_bit_anywhere_is_refused(copy, name) -> None:
    READ[name](RunFolder(copy))
    tries = 0
    for place in flips(copy / name):
        with pytest.raises(FedgrainError, match=name) as caught:
            READ[name](RunFolder(copy))
            pytest.fail(f"{name}: the flip at byte {place} was not noticed")
        assert "\n" not in str(caught.value)
        tries += 1
    assert tries > 100
    READ[name](RunFolder(copy))


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("best.safetensors", ["evaluate"]),
        ("model.json", ["evaluate"]),
        ("config.toml", ["evaluate"]),
        ("environment.json", ["evaluate"]),
        ("result.json", ["report", "--no-images"]),
        ("metrics.jsonl", ["report", "--no-images"]),
    ],
)
def test_every_command_says_which_file_is_damaged(copy, capsys, name, command) -> None:
    raw = bytearray((copy / name).read_bytes())
    raw[-20] ^= 1
    (copy / name).write_bytes(raw)
    assert main([command[0], str(copy), "--trust-code", *command[1:]]) == 2
    err = capsys.readouterr().err
    assert name in err and err.count("\n") == 1


@pytest.mark.parametrize("name", ["state.safetensors", "metrics.jsonl", "config.toml"])
def test_a_run_does_not_go_on_from_a_flipped_bit(small, tmp_path, name) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(small(rounds=2), tmp_path / "run", [Stop()])
    raw = bytearray((tmp_path / "run" / name).read_bytes())
    raw[len(raw) // 2] ^= 4
    (tmp_path / "run" / name).write_bytes(raw)
    with pytest.raises(FedgrainError, match=name):
        run(small(rounds=2), tmp_path / "run")


def test_metrics_that_went_away_are_missed(small, tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(small(rounds=2), tmp_path / "run", [Stop()])
    (tmp_path / "run/metrics.jsonl").unlink()
    with pytest.raises(RunError, match=r"metrics.jsonl: some of its 1 rounds are missing; copy"):
        fedgrain.resume(tmp_path / "run", trust_code=True)


def test_a_run_does_not_go_on_without_its_environment(small, tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(small(rounds=2), tmp_path / "run", [Stop()])
    (tmp_path / "run" / "environment.json").unlink()
    with pytest.raises(RunError, match=r"environment\.json: missing"):
        run(small(rounds=2), tmp_path / "run")


def test_metrics_of_a_finished_run_that_lost_a_round_are_refused(copy) -> None:
    lines = (copy / "metrics.jsonl").read_text().splitlines(keepends=True)
    (copy / "metrics.jsonl").write_text(lines[0])
    with pytest.raises(RunError, match="some of its 2 rounds are missing"):
        RunFolder(copy).metrics_lines()


def test_weights_and_model_are_enough_elsewhere(finished, tmp_path) -> None:
    for name in ("best.safetensors", "model.json"):
        shutil.copy(finished / name, tmp_path)
    found = fedgrain.load(tmp_path, trust_code=True).predict(few_glyphs().images[:3])
    assert found == fedgrain.load(finished, trust_code=True).predict(few_glyphs().images[:3])


def test_a_run_of_an_older_version_opens_and_goes_on(
    copy, small, tmp_path, caplog, monkeypatch
) -> None:
    without_checksums(copy)
    monkeypatch.setattr(checksums, "_warned_unchecked", False)
    with caplog.at_level(logging.WARNING, "fedgrain"):
        assert len(RunFolder(copy).metrics_lines()) == 2
        assert fedgrain.load(copy, trust_code=True).predict(few_glyphs().images[:1])
        assert run(small(rounds=2), copy).rounds == 2
    assert len(caplog.records) == 1 and "has no checksum" in caplog.text
    run(small(rounds=3), copy)
    run(small(rounds=3), tmp_path / "whole")
    for name in ("best.safetensors", "model.json", "config.toml"):
        assert (copy / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    for name in ("best.safetensors", "result.json", "config.toml"):
        raw = bytearray((copy / name).read_bytes())
        raw[40] ^= 2
        (copy / name).write_bytes(raw)
        with pytest.raises(FedgrainError, match=name):
            READ[name](RunFolder(copy))


# what is not ours


def test_a_refused_folder_is_left_as_it_was(small, tmp_path) -> None:
    for name in (".movie.mkv.part", ".config.toml.part", ".state.safetensors.zz.part", ".lock"):
        (tmp_path / name).write_text("precious")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    with pytest.raises(RunError, match="not empty and not a run"):
        run(small(), tmp_path)
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    assert after == before


def test_only_our_own_parts_are_cleared_from_a_run(copy, small) -> None:
    mine = [copy / ".state.safetensors.1f.part", copy / ".config.toml.0a1b2c3d.part"]
    others = [copy / ".movie.mkv.part", copy / ".notes.txt.77.part"]
    for path in (*mine, *others):
        path.write_text("half")
    folder = copy / ".model.json.12.part"
    folder.mkdir()
    run(small(rounds=2), copy)
    assert [path.exists() for path in (*mine, *others, folder)] == [False, False, True, True, True]


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl"])
def test_nothing_is_written_through_a_link(small, tmp_path, name) -> None:
    target = tmp_path / "precious"
    target.write_text("content")
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(small(rounds=2), folder, [Stop()])
    if name == "metrics.jsonl":  # with what belongs there, so that only the writing is wrong
        target.write_bytes((folder / name).read_bytes())
    before = target.read_bytes()
    (folder / name).unlink()
    (folder / name).symlink_to(target)
    with pytest.raises(FedgrainError, match=rf"{name}: a link or a device, .*; remove it"):
        run(small(rounds=2), folder)
    assert target.read_bytes() == before


def test_a_fifo_in_the_place_of_a_lock_is_refused(small, tmp_path) -> None:
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(FedgrainError, match="a link or a device"):
        run(small(), tmp_path)
    assert (tmp_path / ".lock").is_fifo()


@pytest.mark.parametrize("name", READ)
def test_a_named_pipe_in_the_place_of_a_file_is_not_waited_at(copy, name) -> None:
    (copy / name).unlink()
    os.mkfifo(copy / name)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(20)
    try:
        with pytest.raises(FedgrainError, match=f"{name}: a named pipe"):
            READ[name](RunFolder(copy))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_links_in_the_place_of_files_are_replaced_not_written_through(copy, small, tmp_path):
    for name in ("best.safetensors", "config.toml"):
        shutil.move(copy / name, tmp_path / name)
        (copy / name).symlink_to(tmp_path / name)
    before = {name: (tmp_path / name).read_bytes() for name in ("best.safetensors", "config.toml")}
    run(small(rounds=3), copy)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert not (copy / "best.safetensors").is_symlink()


# a run that goes on


class Uses(Callback):
    """Use the model of the folder in every round."""

    def __init__(self, folder: Path) -> None:
        self.place, self.seen = RunFolder(folder), []

    def on_round_end(self, line) -> None:
        found = fedgrain.load(self.place.path, trust_code=True).predict(few_glyphs().images[:5])
        self.seen.append((found, self.place.ended, self.place.read_result()["rounds"]))


def test_a_finished_model_is_used_while_its_run_goes_on(copy, small, tmp_path) -> None:
    before = fedgrain.load(copy, trust_code=True).predict(few_glyphs().images[:5])
    assert RunFolder(copy).ended
    uses = Uses(copy)
    longer = small(rounds=4)
    ended = run(longer, copy, [uses])
    assert uses.seen == [(before, False, 2)] * 2  # the earlier result, and not finished
    assert RunFolder(copy).ended and RunFolder(copy).read_result()["rounds"] == 4
    whole = run(longer, tmp_path / "whole")
    assert {**ended.values, **TIMES} == {**whole.values, **TIMES}
    assert (copy / "best.safetensors").read_bytes() == (
        tmp_path / "whole/best.safetensors"
    ).read_bytes()


def test_a_run_stopped_while_it_goes_on_is_not_finished(copy, small) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(small(rounds=4), copy, [Stop()])
    place = RunFolder(copy)
    assert not place.ended and not place.finished(small(rounds=4).complete())
    assert place.cut_short(small(rounds=4).complete())
    assert np.isfinite(
        fedgrain.load(copy, trust_code=True).node_log_probs(few_glyphs().images[:2]).numpy()
    ).all()
    assert fedgrain.resume(copy, trust_code=True).rounds == 4
    assert place.ended


def killed_at(event: int, act: Callable[[], object]) -> bool:
    """Act in a process that dies just before the n-th change of a file; tell whether it did."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    seen = 0

    def counted(original):
        def wrapped(*given, **named):
            nonlocal seen
            seen += 1
            if seen == event:
                os._exit(9)
            return original(*given, **named)

        return wrapped

    for name in ("replace", "unlink", "write", "fsync", "rename"):
        setattr(os, name, counted(getattr(os, name)))
    try:
        act()
    finally:
        os._exit(0)


def test_killed_at_any_file_event_of_a_run_that_goes_on(small, tmp_path) -> None:
    """Of the case with most steps: a longer first stage, after which the branches begin again."""
    short, longer = (small(algorithm="fedbdft", rounds=n, cycles=1) for n in (1, 2))
    start = run(short, tmp_path / "start").folder
    whole = run(longer, tmp_path / "whole").folder
    event = kills = 0
    while True:
        event += 1 if event < 10 else 9  # every one of those before the first round
        folder = shutil.copytree(start, tmp_path / str(event))
        if not killed_at(event, lambda at=folder: run(longer, at, workers=1)):
            break
        kills += 1
        assert fedgrain.load(folder, trust_code=True).predict(few_glyphs().images[:2])
        run(longer, folder, workers=1)
        for name in ("best.safetensors", "model.json", "config.toml"):
            assert (folder / name).read_bytes() == (whole / name).read_bytes(), (event, name)
        mine, other = (RunFolder(place).read_result() for place in (folder, whole))
        assert {**mine, **TIMES} == {**other, **TIMES}
        shutil.rmtree(folder)
    assert kills > 12

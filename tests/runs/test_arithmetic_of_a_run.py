"""A run says in which arithmetic it was made, and goes on in no other."""

import json
from pathlib import Path

import pytest

import fedgrain
from fedgrain import Callback, arithmetic
from fedgrain.checked_json import read_checked_json, write_checked_json
from fedgrain.errors import RunError
from fedgrain.runs.run_folder import RunFolder
from fedgrain.studies.executors import start_from


class StopAtOnce(Callback):
    """Stop as Ctrl-C does."""

    def on_round_end(self, line) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def stopped(small, tmp_path) -> Path:
    with pytest.raises(KeyboardInterrupt):
        fedgrain.run(small(), tmp_path / "run", [StopAtOnce()])
    return tmp_path / "run"


def now_in(folder: Path, mode: str | None) -> None:
    """Change what a folder says of its arithmetic, or let it say nothing as older ones do."""
    place = folder / "environment.json"
    content = read_checked_json(place)
    content.pop("arithmetic")
    write_checked_json(place, content if mode is None else {**content, "arithmetic": mode})


def test_a_run_goes_on_in_the_arithmetic_it_began_in(stopped) -> None:
    here = arithmetic.in_use()
    assert json.loads((stopped / "environment.json").read_text())["arithmetic"] == here
    other = "portable" if here.startswith("native") else "native"
    now_in(stopped, other)
    before = (stopped / "state.safetensors").read_bytes()
    with pytest.raises(RunError) as refused:
        fedgrain.resume(stopped, trust_code=True)
    told = str(refused.value)
    assert told.startswith(f"{stopped}: the run was started in {other} arithmetic")
    assert f"set FEDGRAIN_ARITHMETIC={other} before Python starts, or choose a new folder" in told
    assert (stopped / "state.safetensors").read_bytes() == before
    now_in(stopped, here)
    fedgrain.resume(stopped, trust_code=True)
    now_in(stopped, other)
    assert fedgrain.resume(stopped, trust_code=True).values["rounds"] == 3, (
        "a finished run is only read"
    )


def test_more_rounds_and_second_stages_are_refused_too(small, stopped, tmp_path) -> None:
    fedgrain.resume(stopped, trust_code=True)
    now_in(stopped, "another")
    with pytest.raises(RunError, match="started in another arithmetic"):
        fedgrain.run(small(rounds=4), stopped)
    assert (stopped / "result.json").exists()
    with pytest.raises(RunError, match="started in another arithmetic"):
        start_from(RunFolder(stopped), RunFolder(tmp_path / "new"), small(algorithm="fedbdft"))
    assert not (tmp_path / "new").exists()


def test_a_folder_from_before_goes_on(stopped) -> None:
    now_in(stopped, None)
    assert fedgrain.resume(stopped, trust_code=True).values["rounds"] == 3

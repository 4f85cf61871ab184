"""The server of real sites has a taxonomy, a config and no image."""

from __future__ import annotations

import io
import json
import logging
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from PIL import Image

from fedgrain.cli import main
from fedgrain.config.config import Config
from fedgrain.deployment.app import App, write_app
from fedgrain.deployment.entry_points import server_app, without_traceback
from fedgrain.deployment.server import serve
from fedgrain.deployment.server_settings import Operation
from fedgrain.deployment.server_side import server_side
from fedgrain.errors import DeploymentError, RunError
from fedgrain.models import model_folder
from fedgrain.records.audit import read_audit
from fedgrain.runs.rounds import train_and_test
from fedgrain.runs.run_folder import RunFolder
from flower_wire import Answer, Wire, through
from small_federation import TREE

SITES = ["museum", "zoo"]


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages carry the ids of a run and a node, which Flower sets for an app."""
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def app_of_real_sites(
    place: Path, own: Mapping[str, Any] | None = None, **changes: Any
) -> tuple[Path, dict[str, Any], Wire]:
    """Write an app and two sites with twelve images each; ``own`` are settings of the second."""
    settings: dict[str, Any] = {
        "dataset": "folder", "image_size": 32, "net": "own_parts:SmallNet", "rounds": 2,
        "join_ratio": 1.0, "clients": 2, "partition": "manifest", "knowledge": "inferred",
        "validation": "clients", "client_time_limit": 30.0, **changes,
    }  # fmt: skip
    write_app(place / "app", App(Config(**settings).complete(), TREE), operation(place))
    text = (place / "app" / "pyproject.toml").read_text()
    of_app = tomllib.loads(text)["tool"]["flwr"]["app"]["config"]
    package = place / "app" / "fedgrain_app"
    generator = np.random.default_rng(3)

    def site(name: str) -> Answer:
        rows = ["path,label"]
        for number, label in enumerate(["a1", "a2", "b1", "b2"] * 3):
            pixels = generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / f"{name}{number}.png")
            rows.append(f"{name}{number}.png,{label}")
        (place / f"{name}.csv").write_text("\n".join(rows) + "\n")
        node = {"site": name, "images": str(place / f"{name}.csv"), "trust-code": True}
        node["record"] = str(place / f"{name}.jsonl")
        node |= own or {} if name == SITES[-1] else {}
        return through(package, node, of_app)

    return package, of_app, Wire({10 + n: site(name) for n, name in enumerate(SITES)})


def operation(place: Path) -> Operation:
    return Operation(SITES, place / "run")


@pytest.mark.parametrize("algorithm", ["fedavg", "fedbdft"])
def test_the_server_of_real_sites_trains_a_model_without_any_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    package, settings, wire = app_of_real_sites(
        tmp_path, algorithm=algorithm, cycles=1, min_branch_samples=2
    )
    own = server_side(App.read(package), operation(tmp_path))
    assert own.prepared is None
    assert own.description.image_shape == (32, 32, 3)
    results = []
    monkeypatch.setattr(
        "fedgrain.deployment.server.train_and_test",
        lambda *arguments: results.append(train_and_test(*arguments)) or results[-1],
    )
    serve(wire, package, settings)
    (result,) = results
    assert result.values["tested_on"] is None and result.hf is None
    assert result.validation_hf is not None and result.values["faults"] == 0
    assert result.cycles == (1 if algorithm == "fedbdft" else 0)
    image = np.zeros((1, 32, 32, 3), np.uint8)
    kept = model_folder.load(tmp_path / "run", trust_code=True)
    assert kept.predict(image) == result.predict(image)


def test_a_server_without_images_cannot_validate(tmp_path: Path) -> None:
    package, settings, wire = app_of_real_sites(tmp_path, validation="server")
    with pytest.raises(DeploymentError, match="the server has no images; set validation to"):
        serve(wire, package, settings)
    assert not (tmp_path / "run" / "config.toml").exists()


def test_a_server_that_did_not_get_its_sites_starts_again(tmp_path: Path) -> None:
    package, settings, wire = app_of_real_sites(tmp_path, min_clients=2, rounds=1)
    late = wire.infos.pop(11)
    with pytest.raises(DeploymentError, match="1 sites are connected after 0 seconds, but"):
        serve(wire, package, {**settings, "wait-seconds": 0})
    assert [path.name for path in sorted((tmp_path / "run").iterdir())] == [
        "record.jsonl", "record.jsonl.head",
    ]  # fmt: skip
    wire.infos[11] = late
    serve(wire, package, settings)
    assert RunFolder(tmp_path / "run").result.exists()
    assert read_audit(tmp_path / "run" / "record.jsonl").entries > 4
    (tmp_path / "run" / "config.toml").unlink()
    with pytest.raises(RunError, match="not empty and not a run"):
        serve(wire, package, settings)


def test_the_line_of_a_round_names_the_sites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package, settings, wire = app_of_real_sites(tmp_path, rounds=1)
    serve(wire, package, settings)
    (line,) = (text for text in capsys.readouterr().out.splitlines() if "fedavg 1:" in text)
    assert line.startswith(f"fedgrain: fedavg 1: {', '.join(SITES)} trained, validation HF ")


def test_another_time_limit_for_a_begun_run_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package, settings, wire = app_of_real_sites(tmp_path, rounds=1)
    serve(wire, package, settings)
    capsys.readouterr()
    changed = replace(App.read(package).config, client_time_limit=31.0)
    write_app(tmp_path / "app", App(changed, TREE), operation(tmp_path))
    app, log = server_app(package), io.StringIO()
    flower = logging.getLogger("flwr")
    handler = logging.StreamHandler(log)
    flower.addHandler(handler)
    try:
        with pytest.raises(RunError) as failed:
            app(wire, Context(1, 1, {}, RecordDict(), settings))
        flower.error("ServerApp raised an exception", exc_info=failed.value)  # as Flower does
    finally:
        flower.removeHandler(handler)
        flower.removeFilter(without_traceback)
    assert "Traceback" not in log.getvalue()
    (line,) = capsys.readouterr().out.splitlines()
    assert "other settings: client_time_limit (30.0 and 31.0); choose another folder" in line


def test_a_bug_of_ours_keeps_its_traceback() -> None:
    try:
        raise ValueError("ours")
    except ValueError as error:
        about = (type(error), error, error.__traceback__)
    record = logging.LogRecord("flwr", logging.ERROR, "", 1, "failed", (), about)
    assert without_traceback(record) and record.exc_info == about


def test_a_site_evaluates_the_final_model_on_its_own_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It needs two files of the run, and its manifest with rows kept for the test."""
    package, settings, wire = app_of_real_sites(tmp_path, rounds=1)
    serve(wire, package, settings)
    mine = tmp_path / "at the museum"
    mine.mkdir()
    for name in ("model.json", "best.safetensors"):
        shutil.copy(tmp_path / "run" / name, mine)
    name = SITES[0]
    rows = [f"{name}{n}.png,{label},test" for n, label in enumerate(["a1", "a2", "b", "b2"])]
    (tmp_path / "kept.csv").write_text("path,label,split\n" + "\n".join(rows) + "\n")
    capsys.readouterr()
    typed = ["evaluate", str(mine), "--manifest", str(tmp_path / "kept.csv"), "--trust-code"]
    assert main([*typed, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["samples"] == 4 and 0 <= scores["hf"] <= 1
    assert main([*typed, "--data-root", "elsewhere"]) == 2
    assert "--manifest names the images itself" in capsys.readouterr().err


NOW = datetime.now()
LATER = f"{NOW + timedelta(hours=2):%H}:00-{NOW + timedelta(hours=3):%H}:00"


@pytest.mark.parametrize(
    ("text", "rule", "rounds"),
    [
        ("[work]\nrounds = 1", "work.rounds", 2),
        ("[config]\nlr = {most = 0.001}", "config.lr", 1),
        (f'[app]\nsha256 = "{"0" * 64}"', "app.sha256", 1),
        (f'[work]\nhours = ["{LATER}"]', "work.hours", 1),
        ("[leaves]\nnoise = 1.0", "leaves.noise", 1),
        ("[work]\nround = 1", "policy", 1),  # a file that cannot be read allows nothing
    ],
)
def test_a_site_declines_what_its_owner_does_not_allow_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, rule: str, rounds: int
) -> None:
    (tmp_path / "site.toml").write_text(text)
    package, settings, wire = app_of_real_sites(
        tmp_path, {"policy": str(tmp_path / "site.toml")}, rounds=rounds
    )
    serve(wire, package, {**settings, "wait-seconds": 0})
    first, declining = SITES
    at_server, at_site = capsys.readouterr()
    assert f"its policy declines, by {rule}: " in at_server
    assert f": {rule}: " in at_site
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    lines = RunFolder(tmp_path / "run").metrics_lines()
    trained = [[client["client"] for client in line["clients"]] for line in lines]
    assert trained == ([[first, declining], [first]] if rounds == 2 else [[first]])
    if rounds == 2:
        assert result["left_out"] == {declining: {"declined": 1}}
        (fault,) = lines[-1]["faults"]
        assert fault["kind"] == "declined" and "allowed are 1" in fault["fault"]
    server = tmp_path / "run" / "record.jsonl"
    for name in SITES:
        found = read_audit(tmp_path / f"{name}.jsonl", None, server)
        assert found.compared and not found.only_here
        assert found.declined == ({rule: found.declined[rule]} if name == declining else {})
        left = {part.kind: part for part in found.left}
        if name == first:
            assert left["train"].messages == rounds and left["train"].largest_norm > 0
        assert read_audit(server, None, tmp_path / f"{name}.jsonl").compared
    if rounds == 1:  # nothing but the refusal left, and no image was opened
        sent = sum(part.bytes for part in read_audit(tmp_path / f"{declining}.jsonl").left)
        assert sent < 1000
        assert "samples" not in at_server.split(declining)[-1]


def test_what_leaves_is_as_coarse_as_the_owner_says(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        "[leaves]\nlosses = false\ncount_rounding = 5\ndigits = 1\n"
    )
    package, settings, wire = app_of_real_sites(
        tmp_path, {"policy": str(tmp_path / "site.toml")}, rounds=1
    )
    serve(wire, package, settings)
    exact, coarse = RunFolder(tmp_path / "run").metrics_lines()[0]["clients"]
    assert exact["loss"] is not None and exact["samples"] % 5
    assert coarse["loss"] is None and coarse["samples"] == 10
    (tmp_path / "site.toml").write_text("[leaves]\ncounts = false\nscores = false\n")
    answer = wire.sites[11](Message(RecordDict(), 11, "query"))
    rows = {
        tuple(v) if isinstance(v, list) else v for v in answer.metric_records["counts"].values()
    }
    assert rows <= {1, (1, 1, 1), (1, 1), (1, 1, 1, 1)} and "time" not in answer


@pytest.mark.parametrize(
    ("policy", "helps"),
    [("digits = 1", True), ("calibration = false", False), ("count_rounding = 5", False)],
)
def test_what_calibrates_the_model_is_checked_by_the_policy_and_recorded(
    tmp_path: Path, policy: str, helps: bool
) -> None:
    (tmp_path / "site.toml").write_text(f"[leaves]\n{policy}\n")
    package, settings, wire = app_of_real_sites(
        tmp_path, {"policy": str(tmp_path / "site.toml")}, rounds=1, validation_share=0.5
    )
    serve(wire, package, settings)
    kept = model_folder.load(tmp_path / "run", trust_code=True).calibration
    assert kept is not None and kept.images == (16 if helps else 8)
    for name in SITES:
        found = read_audit(tmp_path / f"{name}.jsonl")
        left = {part.kind: part.messages for part in found.left}
        own = helps or name != SITES[-1]
        assert left.get("sums and counts that calibrate", 0) == (2 if own else 0)
        assert found.declined == ({} if own else {"leaves.calibration": 2}) and not found.failed

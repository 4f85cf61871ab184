"""A run and its folder: what it holds, when it is refused, and that bad settings leave nothing."""

import json
import resource
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

import fedgrain
from fedgrain import Callback, run
from fedgrain.cli import main
from fedgrain.config.config import Config
from fedgrain.config.config_texts import read_config
from fedgrain.errors import ConfigError, DataError, HeadError, KnowledgeError, NetError, RunError
from fedgrain.federated import TrainingSettings
from fedgrain.federated.fedavg import FedAvg
from fedgrain.preparation.prepare import prepare
from fedgrain.runs.checkpoint import load_progress
from fedgrain.runs.run_folder import RunFolder
from own_parts import few_glyphs


@pytest.fixture(scope="module")
def finished(small, tmp_path_factory) -> fedgrain.Result:
    """A finished run of FedBDFT in a folder."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    config = small(algorithm="fedbdft", supervision="projection", min_branch_samples=12, lr=0.05)
    return fedgrain.run(config, folder)


def test_the_folder_of_a_run(finished) -> None:
    folder = finished.folder
    assert sorted(path.name for path in folder.iterdir()) == [
        *(".lock", "best.safetensors", "config.toml", "environment.json", "metrics.jsonl"),
        *("model.json", "result.json", "state.safetensors"),
    ]
    settings = tomllib.loads((folder / "config.toml").read_text())
    assert settings["join_ratio"] == 0.5  # defaults are written out
    assert settings["supervision"] == "projection"
    environment = json.loads((folder / "environment.json").read_text())
    assert set(environment["packages"]) >= {"fedgrain", "torch", "numpy"}
    assert environment["cpu"]  # native arithmetic depends on it
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["round"]) for line in lines] == [
        *(("fedavg", 1), ("fedavg", 2), ("fedavg", 3)),
        *(("fedbdft", 1), ("fedbdft", 2)),
    ]
    for line in lines[:3]:
        assert len(line["clients"]) == 2
        told = {"client", "samples", "loss", "steps", "moved", "agrees"}
        assert all(set(client) == told for client in line["clients"])
    assert lines[3]["branches"][0]["branch"] in few_glyphs().taxonomy.ids
    assert lines[3]["branches"][0]["clients"][0]["samples"] >= 12


def test_the_result(finished) -> None:
    values = RunFolder(finished.folder).read_result()
    assert values == json.loads(json.dumps(finished.values))
    for name in ("hf", "hr", "hp", "accuracy", "validation_hf", "rounds", "seconds", "seed"):
        assert isinstance(values[name], int | float)
    assert values["config"]["alpha"] == 0.5
    assert (finished.rounds, finished.cycles, finished.tested_on) == (3, 2, "test")
    assert finished.hf == values["hf"]
    assert 0 < finished.accuracy < 1


def test_never_trained_branches_are_told(finished) -> None:
    """Those below which no client has the 12 samples asked for: all but the upper ones."""
    prepared = prepare(read_config(finished.folder / "config.toml"))
    tree = prepared.federation.taxonomy
    trained = set()
    for line in RunFolder(finished.folder).metrics_lines():
        trained |= {branch["branch"] for branch in line.get("branches", [])}
    assert finished.untrained_branches
    assert set(finished.untrained_branches) == {tree.ids[e] for e in tree.internal} - trained


def test_a_finished_run_is_returned_as_it_is(finished) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.folder.iterdir()}
    again = fedgrain.run(read_config(finished.folder / "config.toml"), finished.folder)
    assert again.values == json.loads(json.dumps(finished.values))
    del before[finished.folder / ".lock"]
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_a_folder_of_another_config_is_refused_and_the_difference_named(finished, small) -> None:
    with pytest.raises(RunError, match=r"other settings: lr \(0.05 and 0.1\), seed \(47 and 48\);"):
        other = small(algorithm="fedbdft", supervision="projection", min_branch_samples=12, seed=48)
        fedgrain.run(other, finished.folder)


class StopsAfterOne(Callback):
    def on_round_end(self, line) -> None:
        if line["round"] == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("supervision", ["projection", "learned"])
def test_a_mean_over_rounds_and_shared_out_labels_resume_to_the_same_bits(
    small, tmp_path, supervision
) -> None:
    past = {"head": "flat-softmax", "supervision": supervision}
    config = small(rounds=3, average_rounds=2, responsibilities="round", **past)
    run(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "cut", [StopsAfterOne()])
    fedgrain.resume(tmp_path / "cut", trust_code=True)
    for name in ("best.safetensors", "state.safetensors"):
        whole, cut = (safetensors.torch.load_file(tmp_path / f / name) for f in ("whole", "cut"))
        assert whole.keys() == cut.keys()
        assert all(torch.equal(whole[key], cut[key]) for key in whole)
    assert any(key.startswith("mean/") for key in cut)


@pytest.mark.parametrize(
    ("settings", "cap"),
    [({"average_rounds": 2}, "rounds"), ({"algorithm": "fedbdft", "rounds": 2}, "cycles")],
)
def test_more_rounds_go_on_to_the_bits_of_a_longer_run(small, tmp_path, settings, cap) -> None:
    short, long = (small(**{**settings, cap: count}) for count in (1, 3))
    run(short, tmp_path / "grown")
    grown, whole = run(long, tmp_path / "grown"), run(long, tmp_path / "whole")
    for name in ("best.safetensors", "state.safetensors"):
        one, other = (safetensors.torch.load_file(tmp_path / f / name) for f in ("whole", "grown"))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    untimed = [{**r.values, "seconds": 0, "core_seconds": 0} for r in (grown, whole)]
    assert untimed[0] == untimed[1]
    assert getattr(grown, cap) == 3
    assert read_config(tmp_path / "grown/config.toml") == long.complete()
    with pytest.raises(RunError, match=rf"other settings: {cap} \(3 and 1\)"):
        run(short, tmp_path / "grown")  # what was done is not undone


def test_a_longer_first_stage_lets_the_branches_begin_again(small, tmp_path) -> None:
    short, long = (small(algorithm="fedbdft", rounds=n, cycles=n) for n in (1, 2))
    run(short, tmp_path / "grown")
    grown, whole = run(long, tmp_path / "grown"), run(long, tmp_path / "whole")
    untimed = [{**r.values, "seconds": 0, "core_seconds": 0} for r in (grown, whole)]
    assert untimed[0] == untimed[1]
    one, other = (tmp_path / f / "best.safetensors" for f in ("whole", "grown"))
    assert one.read_bytes() == other.read_bytes()
    assert len((tmp_path / "grown/metrics.jsonl").read_text().splitlines()) == 4


def test_a_damaged_state_costs_no_finished_result(small, tmp_path) -> None:
    folder = run(small(rounds=1), tmp_path / "run").folder
    (folder / "state.safetensors").write_bytes(b"\x00" * 100)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(RunError, match=r"state.safetensors: not a whole"):
        run(small(rounds=2), folder)
    (folder / "state.safetensors").unlink()
    with pytest.raises(RunError, match=r"no state.safetensors to continue from; keep the old"):
        run(small(rounds=2), folder)
    assert {p: p.read_bytes() for p in folder.iterdir()} == {
        path: held for path, held in before.items() if path.name != "state.safetensors"
    }


def test_a_folder_of_a_run_on_other_data_is_refused(tmp_path) -> None:
    """Also by a finished run, and by one that is to go on."""
    config = {"dataset": "folder", "image_size": 16, "net": "own_parts:TinyNet", "rounds": 1}
    config |= {"partition": "manifest", "knowledge": "inferred", "alpha": 0.0, "batch": 4}
    for name, shades in (("one", (0, 200)), ("two", (90, 140))):
        place = tmp_path / name
        place.mkdir()
        (place / "taxonomy.csv").write_text("parent,child\nall,dark\nall,light\n")
        lines = ["path,label,client,split"]
        for number in range(24):
            label, shade = (("dark", shades[0]), ("light", shades[1]))[number % 2]
            Image.new("RGB", (16, 16), (shade + number,) * 3).save(place / f"{number}.png")
            split = "test" if number < 4 else "validation" if number < 8 else "train"
            lines.append(f"{number}.png,{label},site {number // 2 % 2},{split}")
        (place / "images.csv").write_text("\n".join(lines) + "\n")
    run(Config(data_root=str(tmp_path / "one"), **config), tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    for rounds in (1, 2):
        other = Config(data_root=str(tmp_path / "two"), **{**config, "rounds": rounds})
        with pytest.raises(RunError, match=r"run: the folder holds a run on other images or label"):
            run(other, tmp_path / "run")
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    (tmp_path / "one").rename(tmp_path / "moved")  # the same data elsewhere is the same run
    again = run(Config(data_root=str(tmp_path / "moved"), **config), tmp_path / "run")
    assert (again.rounds, (tmp_path / "run/result.json").stat().st_size > 0) == (1, True)


def test_a_run_that_ended_before_its_cap_is_finished_under_a_larger_one(small, tmp_path) -> None:
    patient = {"patience": 1, "min_delta": 0.9}  # no round is better by so much
    ended = run(small(rounds=5, **patient), tmp_path / "run")
    assert ended.rounds < 5
    kept = (tmp_path / "run/result.json").read_bytes()
    assert run(small(rounds=9, **patient), tmp_path / "run").rounds == ended.rounds
    assert (tmp_path / "run/result.json").read_bytes() == kept


def test_a_damaged_state_is_told(small, tmp_path) -> None:
    folder = run(small(rounds=1), tmp_path / "run").folder
    (folder / "result.json").unlink()
    (folder / "state.safetensors").write_bytes(b"\x00" * 100)
    with pytest.raises(RunError, match=r"state.safetensors: not a whole .*; remove it to start"):
        fedgrain.resume(folder, trust_code=True)
    shutil.copy(folder / "best.safetensors", folder / "state.safetensors")
    with pytest.raises(RunError, match=r"not the state of a run of this version .*; remove it to"):
        fedgrain.resume(folder, trust_code=True)
    (folder / "state.safetensors").unlink()
    assert fedgrain.resume(folder, trust_code=True).rounds == 1


def test_a_folder_of_something_else_is_refused(small, tmp_path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match=r"not empty and not a run \(thesis.tex\)"):
        fedgrain.run(small(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(RunError, match="no run here"):
        fedgrain.resume(tmp_path, trust_code=True)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"dataset": "own_parts:no_images"}, ConfigError, "no training images"),
        ({"dataset": "own_parts:nowhere"}, DataError, "own_parts:nowhere"),
        ({"dataset": "folder", "data_root": "/nowhere/at/all"}, DataError, "no such folder"),
        ({"head": "softmax-margin", "supervision": "projection"}, HeadError, "has no meaning"),
        ({"net": "torch.nn:Identity"}, NetError, "has no module 'features'"),
        ({"net": "squeezenet"}, NetError, "at least 95"),
        ({"net": "own_parts:NoHead", "algorithm": "fedbdft"}, HeadError, "cannot decouple"),
        ({"knowledge": "/nowhere/known.json"}, OSError, "known.json"),
        ({"knowledge": "own_parts:few_glyphs"}, ConfigError, "it is called with the taxonomy"),
        ({"clients": 4, "min_clients": 3}, ConfigError, "only 2 of 4"),
        ({"partition": "manifest"}, DataError, "names no clients"),
    ],
    ids=lambda value: next(iter(value.values())) if isinstance(value, dict) else "",
)
def test_bad_settings_leave_nothing_behind(small, tmp_path, settings, error, words) -> None:
    with pytest.raises(error, match=words) as caught:
        fedgrain.run(small(**settings), tmp_path / "deep" / "run")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_two_processes_on_one_folder(python, tmp_path) -> None:
    place = RunFolder(tmp_path / "run")
    with place.locked():
        script = "import sys, fedgrain; fedgrain.run(fedgrain.Config(), sys.argv[1])"
        done = python(script, place.path)
    assert "RunError" in done.stderr
    assert "another process is running here" in done.stderr
    assert not place.path.exists()


def test_callbacks_and_a_run_without_a_folder(small, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    class Diary(Callback):
        def __init__(self) -> None:
            self.said: list[object] = []

        def on_round_start(self, stage, number) -> None:
            self.said.append((stage, number))

        def on_round_end(self, line) -> None:
            self.said.append(line["validation_hf"])

        def on_run_end(self, result) -> None:
            self.said.append(result["rounds"])

    diary = Diary()
    result = fedgrain.run(small(rounds=2), callbacks=[diary])
    assert diary.said[0::2] == [("fedavg", 1), ("fedavg", 2), 2]
    assert max(diary.said[1::2]) == result.validation_hf
    assert result.folder is None
    assert list(tmp_path.iterdir()) == []


def test_the_users_own_head_net_knowledge_and_data(small, tmp_path) -> None:
    config = small(head="own_parts:OwnHead", knowledge="own_parts:own_knowledge", rounds=1)
    result = fedgrain.run(config, tmp_path / "run")
    images = few_glyphs().images[:5]
    assert fedgrain.load(tmp_path / "run", trust_code=True).predict(images) == result.predict(
        images
    )


def test_a_batch_norm_net_learns_end_to_end(small) -> None:
    start = fedgrain.run(small(rounds=1, lr=1e-9, alpha=0.0)).hf
    trained = fedgrain.run(small(rounds=8, join_ratio=1.0, alpha=0.0)).hf
    assert trained > start + 0.1


@pytest.mark.parametrize(
    "settings",
    [
        {"validation": "clients"},
        {"partition": "dirichlet"},
        {"knowledge": "inferred"},
        {"knowledge": "hidden-leaves", "head": "ps-softmax", "supervision": "projection"},
        {"head": "flat-softmax", "supervision": "marginal", "crop_and_flip": True},
        {"head": "cond-sigmoid", "momentum": 0.9, "weight_decay": 1e-4, "proximal": 0.1},
        {"head": "softmax-descendant", "server_optimizer": "sgd", "server_momentum": 0.9},
        {"algorithm": "fedbdft", "supervision": "projection", "laziness": 0.1,
         "first_stage_supervision": "paper", "cycles": 1},
    ],
    ids=lambda settings: ", ".join(map(str, settings.values())),
)  # fmt: skip
def test_every_option_runs(small, settings) -> None:
    result = fedgrain.run(small(rounds=1, **settings))
    assert 0 < result.hf < 1
    if settings.get("knowledge") == "inferred":
        assert result.values["config"]["supervision"] == "learned"


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Callable[[str], Path]]:
    """Mount a disk of a given size on a folder; asked again, change its size."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def of_size(size: str) -> Path:
        change = "remount," if folder.is_mount() else ""
        command = ["mount", "-t", "tmpfs", "-o", f"{change}size={size}", "tmpfs", str(folder)]
        mounted = subprocess.run(command, capture_output=True, text=True)
        if mounted.returncode:
            pytest.skip(f"cannot mount a small disk: {mounted.stderr.strip()}")
        return folder

    yield of_size
    if folder.is_mount():
        subprocess.run(["umount", str(folder)], check=True)


def assert_whole(folder: Path) -> None:
    """Nothing is half-written: every file there can be read to its end."""
    assert not list(folder.glob(".*.part"))
    for line in (folder / "metrics.jsonl").read_text().splitlines(keepends=True):
        assert line.endswith("\n")
        json.loads(line)
    if (folder / "state.safetensors").exists():
        load_progress(folder / "state.safetensors", FedAvg(TrainingSettings()))
    assert not (folder / "result.json").exists()


@pytest.mark.parametrize("states", [0.5, 1.5], ids=["first round", "later round"])
def test_a_full_disk(small, small_disk, tmp_path, capsys, states) -> None:
    """One sentence and exit code 2; with more room the same command goes on to the same bytes."""
    undisturbed = run(small(), tmp_path / "undisturbed").folder
    kilobytes = round(states * (undisturbed / "state.safetensors").stat().st_size / 1024) + 16
    disk = small_disk(f"{kilobytes}k")
    command = ["run", str(undisturbed / "config.toml"), "--trust-code", "--out", str(disk / "run")]
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    *_, message = err.splitlines()
    assert message.startswith(f"fedgrain: error: {tmp_path / 'disk' / 'run'}: cannot write (No spa")
    assert_whole(tmp_path / "disk" / "run")
    assert (tmp_path / "disk" / "run" / "state.safetensors").exists() == (states > 1)
    small_disk("20m")
    assert main(command) == 0
    for name in ("best.safetensors", "model.json"):
        whole = (undisturbed / name).read_bytes()
        assert (tmp_path / "disk" / "run" / name).read_bytes() == whole


def test_a_disk_too_full_for_the_first_file(small, tmp_path) -> None:
    """The same without a mount: the kernel refuses files above a size, here any size."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(RunError, match=r"File too large.* give the same command again"):
            run(small(), tmp_path / "deep" / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_the_test_images_are_never_trained_on(small) -> None:
    prepared = prepare(small())
    federation = prepared.federation
    parts = [client.train.indices for client in federation.clients]
    everything = np.concatenate([*parts, federation.validation.indices, prepared.test])
    assert sorted(everything.tolist()) == list(range(len(few_glyphs())))


def test_knowledge_of_other_clients_is_refused(small, tmp_path) -> None:
    from fedgrain.knowledge import known_paths_only

    known_paths_only(few_glyphs().taxonomy, 3, 0.5, 47).save(tmp_path / "known.json")
    with pytest.raises(KnowledgeError, match="3 labellers for 4 clients"):
        prepare(small(knowledge=str(tmp_path / "known.json")))
    with_three = prepare(small(knowledge=str(tmp_path / "known.json"), clients=3))
    assert len(with_three.federation.clients) == 3

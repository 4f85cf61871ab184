"""``fedgrain study`` as a user calls it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedgrain.cli import main
from study_parts import heeding_ctrl_c

TESTS = Path(__file__).parents[1]
STUDY = """
datasets = ["own_parts:few_glyphs"]
methods = ["cond-softmax/paper", "fedbdft/paper", "flat-softmax/projection", "local-only"]
alphas = [0.0, 0.5]
seeds = [1]

[settings]
net = "own_parts:SmallNet"
clients = 2
max_children = 4
batch = 16
rounds = 4
cycles = 2
"""
PICTURES = ("hf_over_alpha", "training", "accuracy_per_depth", "operating_curve")


@pytest.fixture(scope="module")
def study_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "own.toml"
    path.write_text(STUDY)
    return path


def start(study_file, out, *options):
    command = [
        Path(sys.executable).with_name("fedgrain"),
        "study",
        study_file,
        "--trust-code",
        "--out",
        out,
    ]
    return subprocess.Popen(
        [str(word) for word in [*command, "--jobs", 2, *options]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        preexec_fn=heeding_ctrl_c,
    )


@pytest.fixture(scope="module")
def undisturbed(study_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "whole"
    process = start(study_file, out)
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out, printed, errors


def test_it_prints_the_table_a_sentence_and_the_figures(undisturbed):
    out, printed, errors = undisturbed
    assert printed.startswith((out / "table.txt").read_text())
    assert "On own_parts:few_glyphs at alpha 0.5, " in printed
    for name in PICTURES:
        assert f"figure: {out / 'figures' / name}.png" in printed
        for kind in ("svg", "png"):
            assert (out / "figures" / f"{name}.{kind}").stat().st_size > 1000
    assert "10/10" in errors  # 6 runs, and local-only twice at two clients
    assert "run/s" in errors or "s/run" in errors


def descendants(number: int) -> set[int]:
    """The processes that a process started, from whichever thread, and theirs."""
    lists = [path.read_text() for path in Path(f"/proc/{number}/task").glob("*/children")]
    found = {int(word) for text in lists for word in text.split()}
    return found.union(*(descendants(child) for child in found))


def test_killed_and_started_again_it_ends_with_the_same_table(undisturbed, study_file, tmp_path):
    whole, *_ = undisturbed
    out = tmp_path / "killed"
    process = start(study_file, out)
    deadline = time.monotonic() + 200
    while len(list(out.glob("runs/*/result.json"))) < 4:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    family = descendants(process.pid)
    assert len(family) >= 2
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (out / "table.csv").exists()
    while any(Path(f"/proc/{number}").exists() for number in family):  # nobody stays behind
        assert time.monotonic() < deadline
        time.sleep(0.01)
    kept = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/result.json")}
    assert 4 <= len(kept) < 10
    process = start(study_file, out)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    for name in ("table.csv", "table.json", "table.txt"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert kept == {path: path.stat().st_mtime_ns for path in kept}  # none was run twice


def test_ctrl_c_says_how_to_go_on(study_file, tmp_path):
    chosen = ["--only", "*alpha0-*", "--only", "*5*"]
    options = ["--set", "rounds=500", "--set", "patience=500", *chosen]
    process = start(study_file, tmp_path / "s", *options)
    deadline = time.monotonic() + 100
    while not list((tmp_path / "s").glob("runs/*/state.safetensors")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    family = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    again = f"fedgrain study {tmp_path}/s/study.toml --out {tmp_path}/s"
    assert f"{again} --only '*alpha0-*' --only '*5*' --jobs 2 --trust-code\n" in errors
    assert "Traceback" not in errors
    while any(Path(f"/proc/{number}").exists() for number in family):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_failed_run_gives_exit_code_1(fedgrain, tmp_path, study_file):
    methods = "own_parts:ExplodingHead/paper,flat-softmax/paper"
    options = ("--methods", methods, "--alphas", "0", "--rounds", "1", "--json", "--jobs", 1)
    command = ("study", study_file, "--trust-code", "--out", tmp_path / "s", *options)
    done = fedgrain(*command, PYTHONPATH=str(TESTS))
    assert done.returncode == 1
    assert "fedgrain: 1 runs failed" in done.stderr
    assert "ExplodingHead-paper-alpha0-seed1: round 1" in done.stderr
    told = json.loads(done.stdout)
    assert told["missing"] == 1
    assert {entry["row"] for entry in told["tables"][0]["entries"]} == {"flat-softmax/paper"}


def test_options_go_on_top_of_a_preset(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    options = ["--alphas", "0,0.9", "--seeds", "47-48,60", "--methods", "oracle,fedbdft/paper"]
    assert main(["study", "paper-cifar100", *options, "--dry-run", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert len(runs) == 9  # the oracle is one run for both alphas
    assert {name.rpartition("seed")[2] for name in runs} == {"47", "48", "60"}
    assert main(["study", "demo", "--dry-run"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 18


def test_a_dry_run_tells_of_the_search(capsys, tmp_path, monkeypatch):
    """3 rates of each of 2 heads, 2 of the branches, 2 seeds: 16 runs before the grid."""
    monkeypatch.chdir(tmp_path)
    study = ["study", "demo", "--methods", "fedbdft/paper,cond-softmax/paper,flat-softmax/paper",
             "--candidates", "0.01,0.05,0.1", "--branch-candidates", "0.01,0.02",
             "--search-seeds", "42,43", "--dry-run"]  # fmt: skip
    assert main([*study, "--search"]) == 0
    assert capsys.readouterr().err == "before these, 16 runs search the learning rates\n"
    assert main([*study, "--search", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["search_runs"] == 16
    assert main([*study, "--no-search"]) == 0
    assert capsys.readouterr().err == ""


def test_a_dry_run_refuses_the_folder_that_a_run_would_refuse(capsys, tmp_path):
    (tmp_path / "runs").mkdir()
    assert main(["study", "demo", "--dry-run", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert "the folder is not empty and not a study (runs)" in told.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["oak"], "there is no study 'oak'"),
        (["demo", "--methods", "oak"], "neither <head>/<supervision>"),
        (["demo", "--methods", "own_parts:Oak/paper"], "has no callable 'Oak'"),
        (["demo", "--methods", "oak:Oak:flat-softmax/paper"], "cannot import 'oak'"),
        (["demo", "--set", "oak=1"], "--set: 'oak' is not a setting of fedgrain run"),
        (["demo", "--set", "rounds"], "--set: 'rounds' is not KEY=VALUE"),
        (["demo", "--search-set", "alpha=0"], "setting alpha is decided by the grid"),
        (["demo", "--only", "*oak*"], "no run of the study matches *oak*"),
        (["demo", "--set", "rounds=many"], "rounds is 'many', but must be a whole number"),
        (["demo", "--alphas", "0.95"], "alpha is 0.95"),
        (["demo", "--jobs", "0"], "--jobs is 0"),
        (["demo", "--search", "--candidates=-1"], "lr is -1.0, but must lie between"),
        (["not-there.toml"], "there is no such file"),
        (["demo", "--set", "seed=1"], "seed is decided by the grid"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(capsys, tmp_path, arguments, words):
    assert main(["study", *arguments, "--out", str(tmp_path / "s")]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert words in err
    assert not (tmp_path / "s").exists()


def test_help_imports_nothing_heavy():
    script = (
        "import sys, fedgrain.cli\n"
        "try: fedgrain.cli.main(['study', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'torch', 'matplotlib', 'tqdm') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"

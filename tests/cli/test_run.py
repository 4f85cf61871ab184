"""``fedgrain run``, ``predict`` and ``evaluate`` as a user calls them."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import own_parts
from fedgrain.cli import build_parser, main
from fedgrain.config.config_texts import read_config
from fedgrain.runs.run_folder import RunFolder
from study_parts import heeding_ctrl_c

TESTS = Path(__file__).parents[1]
SMALL = [
    *("--dataset", "own_parts:few_glyphs", "--net", "own_parts:SmallNet", "--clients", "4"),
    *("--alpha", "0.5", "--max-children", "4", "--batch", "16", "--rounds", "2"),
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert main(["run", *SMALL, "--out", str(folder)]) == 0
    return folder


def test_json_is_the_result_and_nothing_else(tmp_path, capsys) -> None:
    folder = tmp_path / "run"
    assert main(["run", *SMALL, "--out", str(folder), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == RunFolder(folder).read_result()
    assert "validation HF" in err  # progress


def test_the_score_says_over_how_many_leaf_labels_it_is(tmp_path, capsys, monkeypatch) -> None:
    data = own_parts.few_glyphs()
    test, labels = data.split_indices("test"), data.labels.copy()
    labels[test[::2]] = data.taxonomy.parents[labels[test[::2]]]
    coarse = replace(data, labels=labels)
    monkeypatch.setattr(own_parts, "coarse_tests", lambda: coarse, raising=False)
    given = [word.replace("few_glyphs", "coarse_tests") for word in SMALL]
    assert main(["run", *given, "--rounds", "1", "--out", str(tmp_path / "run")]) == 0
    whole = len(test) // 2
    result = RunFolder(tmp_path / "run").read_result()
    found = f"test HF {result['tested_labels']['leaf_hf']:.4f} over {whole} leaf labels (50% of "
    assert f"{found}{len(test)}), {result['hf']:.4f} over all, cut back" in capsys.readouterr().out
    assert result["tested_labels"]["leaf_hf"] != result["hf"]


def test_a_tilde_is_ones_home_also_after_an_equals_sign(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    words = ["run", "--out=~/x", "--data-root=~/site", "--dataset", "a~/b", "--net=~b"]
    args = build_parser().parse_args(words)
    assert args.out == tmp_path / "x" and args.data_root == str(tmp_path / "site")
    assert (args.dataset, args.net) == ("a~/b", "~b")
    args = build_parser().parse_args(["predict", "~/run", "~/photos/*.jpg"])
    assert args.folder == tmp_path / "run" and args.images == [f"{tmp_path}/photos/*.jpg"]


def test_the_same_command_again_says_that_it_is_finished(run_folder, capsys) -> None:
    assert main(["run", *SMALL, "--out", str(run_folder)]) == 0
    out, err = capsys.readouterr()
    assert "is finished already" in err
    assert "validation HF" in out
    assert str(run_folder) in out


def test_a_finished_run_that_goes_on_is_not_finished_already(run_folder, tmp_path, capsys) -> None:
    folder = shutil.copytree(run_folder, tmp_path / "run")
    more = str(read_config(folder / "config.toml").rounds + 1)
    assert main(["run", *SMALL, "--rounds", more, "--out", str(folder)]) == 0
    assert "is finished already" not in capsys.readouterr().err


def test_a_config_file_with_flags_on_top(run_folder, tmp_path, capsys) -> None:
    config = run_folder / "config.toml"
    out = tmp_path / "other"
    assert (
        main(
            ["run", str(config), "--trust-code", "--rounds", "1", "--seed", "50", "--out", str(out)]
        )
        == 0
    )
    result = json.loads((out / "result.json").read_text())
    assert (result["rounds"], result["seed"], result["config"]["clients"]) == (1, 50, 4)


def test_without_out_the_folder_is_named_after_the_run(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", *SMALL, "--rounds", "1", "--algorithm", "fedbdft", "--cycles", "1"]) == 0
    name = "own_parts-few_glyphs-fedbdft-cond-softmax-paper-alpha0.5-seed47"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [name]
    out = capsys.readouterr().out
    assert out.startswith("fedbdft, cond-softmax, paper, alpha 0.5, seed 47\nrounds 1, cycles 1\n")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--head", "hard-softmax"], "head 'hard-softmax' does not exist"),
        (["--alpha", "1.5"], "alpha is 1.5"),
        (["--lr", "-0.1"], "lr is -0.1"),
        (["--dataset", "own_parts:no_images"], "no training images"),
        (["--dataset", "folder", "--data-root", "/nowhere"], "/nowhere: there is no such folder"),
        (["--knowledge", "/nowhere/known.json"], "/nowhere/known.json"),
        (["--net", "squeezenet", "--head", "cond-sigmoid"], "no meaning on squeezenet"),
        (["--server-lr", "0.1"], "server_lr and server_momentum need an optimizer"),
        (["--head", "own_parts:few_glyphs"], "it is called with the taxonomy"),
        (["--net", "own_parts:OneOutput"], "answers one image with [1, 1] instead of [1,"),
        (["--net", "own_parts:ForLargerImages"], "fails on an image of 32 x 32 pixels in 3 channe"),
        (["--device", "cpu:x"], "device 'cpu:x' does not exist"),
        (["--knowledge", "tree.csv"], ", a file of yours that ends in .json, or"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_settings(flags, words, tmp_path, capsys) -> None:
    assert main(["run", *SMALL, *flags, "--out", str(tmp_path / "run")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fedgrain: error: ")
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_config(run_folder, capsys) -> None:
    before = {path: path.read_bytes() for path in run_folder.iterdir()}
    assert main(["run", *SMALL, "--lr", "0.2", "--out", str(run_folder)]) == 2
    err = capsys.readouterr().err
    assert "holds a run with other settings: lr (0.05 and 0.2); choose another folder" in err
    assert {path: path.read_bytes() for path in run_folder.iterdir()} == before


def test_a_folder_in_place_of_a_config(run_folder, tmp_path, capsys) -> None:
    assert main(["run", str(run_folder), "--out", str(tmp_path / "run")]) == 2
    assert f"{run_folder}: a folder where a file is wanted; name one" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_unknown_flags_and_a_missing_file(fedgrain, tmp_path) -> None:
    done = fedgrain("run", "--rate", "1")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "unrecognized arguments: --rate (see fedgrain run --help)" in done.stderr
    done = fedgrain("study", "demo", "--alphas", "0,x")
    assert "'0,x' is not a list of numbers" in done.stderr
    assert main(["run", str(tmp_path / "none.toml")]) == 2


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("fedgrain")), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        preexec_fn=heeding_ctrl_c,
    )


def test_ctrl_c_stops_cleanly_and_says_how_to_resume(tmp_path, capsys) -> None:
    folder = tmp_path / "a run"
    flags = [*SMALL, "--rounds", "80", "--patience", "80", "--out", str(folder)]
    process = started("run", *flags)
    deadline = time.monotonic() + 120
    while not (folder / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    refused = main(["run", *flags])  # a second process on the folder
    assert (refused, process.poll()) == (2, None)
    assert "another process is running here" in capsys.readouterr().err
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    (line,) = [line for line in err.splitlines() if line.startswith("stopped; resume from")]
    command = shlex.split(line.partition("with: ")[2])
    assert not (folder / "result.json").exists()
    assert not list(folder.glob(".*.part"))
    assert main(command[1:]) == 0
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 80
    again = tmp_path / "undisturbed"
    assert main(["run", *flags[:-1], str(again)]) == 0
    for name in ("best.safetensors", "model.json"):
        assert (folder / name).read_bytes() == (again / name).read_bytes()


def test_evaluate_repeats_the_scores_of_the_run(run_folder, capsys) -> None:
    assert main(["evaluate", "--trust-code", str(run_folder), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    result = json.loads((run_folder / "result.json").read_text())
    names = ["hf", "hr", "hp", "accuracy", "edge_distance", "lca_depth"]
    names += [f"{kind}_{name}" for kind in ("micro", "information") for name in ("hr", "hp", "hf")]
    assert {name: scores[name] for name in names} == {name: result[name] for name in names}
    sure = ["--rule", "threshold", "--threshold", "0.9"]
    assert main(["evaluate", "--trust-code", str(run_folder), *sure, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hp"] > scores["hp"]
    assert main(["evaluate", "--trust-code", str(run_folder), "--rule", "expected-hf"]) == 0
    printed = capsys.readouterr().out
    assert "split test, rule expected-hf" in printed
    assert "micro-averaged  HF 0." in printed
    assert (
        main(["evaluate", "--trust-code", str(run_folder), "--dataset", "own_parts:only_to_test"])
        == 0
    )
    assert "8 images of own_parts:only_to_test, split test" in capsys.readouterr().out
    config, surroundings = run_folder / "config.toml", run_folder / "environment.json"
    kept, known = config.read_text(), surroundings.read_text()
    config.write_text(kept.replace("# image_size is not set", "image_size = 32"))
    surroundings.unlink()  # which knows what the config was
    assert (
        main(["evaluate", "--trust-code", str(run_folder), "--dataset", "own_parts:only_to_test"])
        == 0
    )
    config.write_text(kept)
    surroundings.write_text(known)
    capsys.readouterr()
    assert main(["evaluate", "--trust-code", str(run_folder), "--split", "winter"]) == 2
    assert "no image has the split 'winter'" in capsys.readouterr().err

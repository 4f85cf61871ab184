"""Code that a file names is not run unless the user says so; every door is tried.

The code is a module in the current folder, which ``python -m`` puts on the import path. It leaves a
mark as soon as it is imported.
"""

import shutil
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from PIL import Image

import fedgrain
from fedgrain.checked_json import read_checked_json, write_checked_json
from fedgrain.cli import main
from fedgrain.config.config import Config
from fedgrain.errors import RunError
from fedgrain.plugins import OWN, named_code
from fedgrain.report.html import write_report
from fedgrain.runs.operating_curve import curve_of_run
from fedgrain.studies.study_file import read_study

PLAIN = {"dataset": "glyphs", "net": "cnn-32", "rounds": 1, "clients": 2, "alpha": 0.0}
ASK = "add --trust-code"


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A run that names no code."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    fedgrain.run(Config(dataset="own_parts:few_glyphs", net="cnn-32", clients=2, alpha=0.0,
                        max_children=4, rounds=1), folder, workers=1)  # fmt: skip
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace("own_parts:few_glyphs", "glyphs"))
    (folder / "environment.json").unlink()  # which knows what the config was
    return folder


@pytest.fixture
def sent(finished, tmp_path, monkeypatch) -> Path:
    """A copy of it in a folder where the evil module lies, which can be imported."""
    shutil.copytree(finished, tmp_path / "sent")
    (tmp_path / "evil.py").write_text(
        "open('ran', 'w').close()\n"
        "def build(*given):\n    raise RuntimeError('it ran')\n"
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("evil", None)
    Image.new("RGB", (32, 32)).save(tmp_path / "photo.png")
    return tmp_path / "sent"


def name_code(file: Path, **settings: str) -> None:
    """Let a model.json or config.toml name other parts."""
    if file.suffix == ".json":
        write_checked_json(file, {**read_checked_json(file), **settings})
        return
    file.with_name("environment.json").unlink(missing_ok=True)  # which knows the config
    lines = [line for line in file.read_text().splitlines() if line.split(" ")[0] not in settings]
    file.write_text("\n".join([*lines, *(f'{n} = "{v}"' for n, v in settings.items())]) + "\n")


def refused(capsys, *arguments: object) -> str:
    """Return what is told by a command that refuses, without having run the code."""
    assert main([str(argument) for argument in arguments]) == 2
    told = capsys.readouterr().err
    assert ASK in told
    assert "Traceback" not in told
    assert not Path("ran").exists()
    return told


def ran(capsys, *arguments: object) -> None:
    """Check that the code is run by the same command for a user who trusts it."""
    assert main([*map(str, arguments)]) != 0
    assert "it ran" in capsys.readouterr().err
    assert Path("ran").exists()


def test_a_model_that_ends_the_process_is_refused(sent, warm) -> None:
    name_code(sent / "model.json", net="os:_exit")
    done = warm.fedgrain("predict", "sent", "photo.png")
    assert done.returncode == 2, done.stderr
    assert "sent/model.json: its net is 'os:_exit', code that would run" in done.stderr


@pytest.mark.parametrize("part", ["net", "head"])
def test_predict_asks_before_it_runs_code(part, sent, capsys) -> None:
    name_code(sent / "model.json", **{part: "evil:build"})
    told = refused(capsys, "predict", sent, "photo.png")
    assert f"its {part} is 'evil:build'" in told
    with pytest.raises(RunError, match=ASK):
        fedgrain.load(sent)
    with pytest.raises(RunError, match=ASK):
        fedgrain.load(sent, trust_code=["evil:other"])
    ran(capsys, "predict", sent, "photo.png", "--trust-code")


def test_evaluate_and_the_operating_curve_ask(sent, capsys) -> None:
    name_code(sent / "config.toml", dataset="evil:build")
    refused(capsys, "evaluate", sent)
    with pytest.raises(RunError, match=ASK):
        curve_of_run(sent)
    assert not Path("ran").exists()
    ran(capsys, "evaluate", sent, "--trust-code")


@pytest.mark.parametrize(
    ("file", "part"),
    [("model.json", "net"), ("config.toml", "dataset"), ("config.toml", "knowledge")],
)
def test_a_report_goes_without_the_closer_look(file, part, sent, capsys) -> None:
    name_code(sent / file, **{part: "evil:build"})
    assert main(["report", str(sent), "--no-images"]) == 0
    assert ASK in capsys.readouterr().out
    assert not Path("ran").exists()
    write_report(sent, images=False, trust_code=True)
    assert Path("ran").exists()


@pytest.mark.parametrize("part", ["dataset", "net", "head", "knowledge"])
def test_a_config_asks_and_what_is_typed_does_not(part, sent, capsys) -> None:
    config = sent.parent / "config.toml"
    config.write_text(Config(**PLAIN).toml())
    name_code(config, **{part: "evil:build"})
    refused(capsys, "run", config, "--out", "again")
    assert not Path("again").exists()
    ran(capsys, "run", config, "--out", "again", f"--{part}", "evil:build")  # typed
    Path("ran").unlink()
    sys.modules.pop("evil")
    ran(capsys, "run", config, "--out", "again", "--trust-code")


def test_resuming_asks(sent) -> None:
    name_code(sent / "config.toml", net="evil:build")
    with pytest.raises(RunError, match=ASK):
        fedgrain.resume(sent)
    assert not Path("ran").exists()


def test_a_finished_run_gives_no_model_but_the_one_that_was_asked_for(sent) -> None:
    name_code(sent / "model.json", net="evil:build")
    config = Config(net="cnn-32", clients=2, alpha=0.0, max_children=4, rounds=1)
    with pytest.raises(RunError, match=ASK):
        fedgrain.run(config, sent)
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "content",
    [
        'datasets = ["evil:build"]',
        'methods = ["evil:build/paper"]',
        'methods = ["oracle:evil:build"]',
        'methods = ["flat-softmax/paper+net=evil:build"]',
        '[settings]\nnet = "evil:build"',
        'search = true\n[search_settings]\nnet = "evil:build"',
        '[method_settings.flat-softmax]\nknowledge = "evil:build"',
    ],
)
def test_a_study_asks(content, sent, capsys) -> None:
    Path("study.toml").write_text(content + "\n")
    refused(capsys, "study", "study.toml", "--out", "out", "--jobs", 1)
    assert not Path("out").exists()
    assert main(["study", "study.toml", "--dry-run", "--trust-code"]) == 0
    assert read_study("study.toml").code() == {"evil:build"}


def test_a_study_does_not_ask_for_what_is_typed(sent, capsys) -> None:
    Path("study.toml").write_text('datasets = ["evil:build"]\n')
    methods = "evil:head/paper,evil:way:flat-softmax/paper"
    options = ["--datasets", "evil:build", "--methods", methods, "--set", "net=evil:net"]
    assert main(["study", "study.toml", "--dry-run", *options]) == 0
    Path("study.toml").write_text('[settings]\nnet = "evil:other"\n')
    refused(capsys, "study", "study.toml", "--dry-run", *options[:4])


def test_what_counts_as_code() -> None:
    may_be_code = {setting.name for setting in fields(Config) if setting.metadata["own"]}
    assert may_be_code <= set(OWN)  # no setting is forgotten
    names = {"dataset": "glyphs", "net": None, "head": "a:b", "knowledge": "c:/who.json", "lr": 1}
    assert named_code(names) == {"head": "a:b"}
    assert named_code({**names, "knowledge": "a:b"}) == {"head": "a:b", "knowledge": "a:b"}

"""``fedgrain report`` as a user calls it."""

import json
import shutil

import pytest

import hand_made_study
from fedgrain.cli import main
from reported_runs import train_one


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return train_one(tmp_path_factory.mktemp("reported") / "run")


def test_report_of_a_run(folder, capsys):
    assert main(["report", "--trust-code", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    headline, sentence, *_ = out.splitlines()
    assert headline.startswith("Of 64 images it has not seen, ")
    assert sentence.startswith("On reported_runs:hostile_glyphs at alpha 0.5, flat-softmax/proj")
    assert out.splitlines()[-1] == f"report: {folder / 'report.html'}"
    assert "data:image/png" in (folder / "report.html").read_text("utf-8").split("<script>")[0]


def test_no_images_elsewhere_and_as_json(folder, tmp_path, capsys):
    place = tmp_path / "deep" / "page.html"
    assert (
        main(["report", "--trust-code", str(folder), "--no-images", "--out", str(place), "--json"])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(place)
    assert told["notes"] == []
    assert "data:image/png" not in place.read_text("utf-8").split("<script>")[0]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("metrics.jsonl", '{"a"', "metrics.jsonl, line 1: not a round of a run; copy the folder"),
        ("metrics.jsonl", "{}", "metrics.jsonl, line 1: not a round of a run"),
        ("metrics.jsonl", "[]", "metrics.jsonl, line 1: not a round of a run"),
        ("result.json", "{}", "result.json: hr is missing or damaged; copy the folder again"),
        ("config.toml", "", "config.toml: changed since the run started; restore it"),
    ],
)
def test_a_damaged_run_is_one_sentence(folder, tmp_path, capsys, name, content, words):
    copy = shutil.copytree(folder, tmp_path / "run")
    (copy / name).write_text(content)
    assert main(["report", "--trust-code", str(copy), "--out", str(tmp_path / "page.html")]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_a_page_that_cannot_be_written_is_named(folder, tmp_path, capsys):
    assert main(["report", "--trust-code", str(folder), "--no-images", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"fedgrain: error: {tmp_path}: ")


def test_what_is_missing_is_said(tmp_path, capsys):
    hand_made_study.write_study(tmp_path / "study")
    assert main(["report", str(tmp_path / "study")]) == 0
    assert "No closer look at the model of" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "neither a run nor a study" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_images_that_stayed_at_their_sites_are_not_asked_for(folder, tmp_path, capsys):
    copy = shutil.copytree(folder, tmp_path / "run")
    told = (copy / "config.toml").read_text("utf-8")
    told = told.replace("reported_runs:hostile_glyphs", "folder")
    (copy / "environment.json").unlink()  # which knows what the config was
    (copy / "config.toml").write_text(told, "utf-8")
    assert main(["report", "--trust-code", str(copy), "--out", str(tmp_path / "page.html")]) == 0
    out = capsys.readouterr().out
    assert "No closer look at the model of run: its images stayed at their sites." in out
    missing = tmp_path / "missing" / "images.csv"  # a manifest alone says where images are
    told = told.replace("# manifest is not set", f'manifest = "{missing}"')
    (copy / "config.toml").write_text(told, "utf-8")
    assert main(["report", "--trust-code", str(copy), "--out", str(tmp_path / "page.html")]) == 0
    out = capsys.readouterr().out
    assert f"No closer look at the model of run: {missing.parent}: there is no such folder" in out

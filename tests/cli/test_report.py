"""``fedgrain report`` as a user calls it."""

import json

import pytest

import hand_made_study
from fedgrain.cli import main
from reported_runs import train_one


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return train_one(tmp_path_factory.mktemp("reported") / "run")


def test_report_of_a_run(folder, capsys):
    assert main(["report", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("On reported_runs:hostile_glyphs at alpha 0.5, flat-softmax/projection")
    assert out.splitlines()[-1] == f"report: {folder / 'report.html'}"
    assert "data:image/png" in (folder / "report.html").read_text("utf-8").split("<script>")[0]


def test_no_images_elsewhere_and_as_json(folder, tmp_path, capsys):
    place = tmp_path / "deep" / "page.html"
    assert main(["report", str(folder), "--no-images", "--out", str(place), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(place)
    assert told["notes"] == []
    assert "data:image/png" not in place.read_text("utf-8").split("<script>")[0]


def test_what_is_missing_is_said(tmp_path, capsys):
    hand_made_study.write_study(tmp_path / "study")
    assert main(["report", str(tmp_path / "study")]) == 0
    assert "No closer look at the model of" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "neither a run nor a study" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()

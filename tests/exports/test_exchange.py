"""Predictions in the formats of other programs: Camtrap DP, Label Studio, SpeciesNet.

That we read them again is in tests/importers/test_round_trip.py.
"""

import csv
import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from PIL import Image

import fedgrain
from fedgrain.cli import main
from fedgrain.models.exchange import PredictedBy
from fedgrain.models.speciesnet import label_of
from fedgrain.models.trained_model import Prediction
from own_parts import few_glyphs

COLUMNS = 28  # of observations.csv in Camtrap DP 1.0


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Three pictures, one of them broken, in a package with a table of media."""
    monkeypatch.chdir(tmp_path)
    for name in ("a b.png", "c.png"):
        path = tmp_path / "package" / "media" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(few_glyphs().images[len(name)]).save(path)
    (tmp_path / "package" / "media" / "d.png").write_bytes(b"no picture")
    lines = ["mediaID,deploymentID,timestamp,filePath,filePublic"]
    for number, name in enumerate(("a b.png", "c.png", "d.png")):
        lines.append(f"m{number},dep1,2024-05-0{number + 1}T10:00:00Z,media/{name},true")
    (tmp_path / "package" / "media.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "package" / "media"


def predicted(run_folder, *words) -> int:
    return main(["predict", "--trust-code", str(run_folder), *map(str, words)])


def own(run_folder, rule="leaf", threshold=None):
    model = fedgrain.load(run_folder, trust_code=True)
    files = ["package/media/a b.png", "package/media/c.png"]
    return model.predict(files, rule, threshold)


def test_camtrap_dp(run_folder, photos, capsys) -> None:
    words = ("package/media", "--confidence", "0.3", "--format", "camtrap-dp")
    assert predicted(run_folder, *words, "--out", "observations.csv") == 3
    assert capsys.readouterr().out == ""
    rows = list(csv.DictReader(Path("observations.csv").read_text("utf-8").splitlines()))
    assert len(rows[0]) == COLUMNS
    for row, found in zip(rows, own(run_folder, "threshold", 0.3), strict=False):
        coarse = len(found.names) == 1
        assert row["scientificName"] == ("" if coarse else found.name)
        assert row["observationType"] == ("unknown" if coarse else "animal")
        assert float(row["classificationProbability"]) == pytest.approx(found.probability, abs=1e-5)
        assert row["classificationMethod"] == "machine" and "fedgrain" in row["classifiedBy"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row["classificationTimestamp"])
    assert [row["mediaID"] for row in rows] == ["m0", "m1", "m2"]
    assert {row["deploymentID"] for row in rows} == {"dep1"}
    assert rows[1]["eventStart"] == rows[1]["eventEnd"] == "2024-05-02T10:00:00Z"
    assert rows[2]["observationType"] == "unclassified" and rows[2]["observationComments"]
    assert len({row["observationID"] for row in rows}) == 3


def test_camtrap_dp_needs_the_package(run_folder, photos, capsys) -> None:
    def said() -> str:
        words = ("package/media/c.png", "--format", "camtrap-dp", "--out", "o.csv")
        assert predicted(run_folder, *words) == 2
        text = capsys.readouterr().err
        assert text.count("\n") == 1 and not (photos.parents[1] / "o.csv").exists()
        return text

    table = photos.parent / "media.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], lines[1]]))
    assert "c.png: no line of" in said()
    table.write_text("mediaID,filePath\nm1,media/c.png\n")
    assert "media.csv, line 1: no column deploymentID" in said()
    table.unlink()
    assert "no media.csv of a Camtrap DP package" in said()


def test_label_studio(run_folder, photos) -> None:
    assert (
        predicted(run_folder, "package/media", "--out", "t.json", "--format", "label-studio") == 3
    )
    tasks = json.loads((photos.parents[1] / "t.json").read_text("utf-8"))
    images = [unquote(task["data"]["image"].split("?d=")[1]) for task in tasks]
    assert images == [f"package/media/{name}" for name in ("a b.png", "c.png", "d.png")]
    for task, found in zip(tasks, own(run_folder), strict=False):
        (prediction,) = task["predictions"]
        (choice,) = prediction["result"]
        assert choice["type"] == "taxonomy" and choice["to_name"] == "image"
        assert choice["value"] == {"taxonomy": [list(found.names[1:])]}
        assert prediction["score"] == pytest.approx(found.probability)
    assert "predictions" not in tasks[2]


def test_speciesnet(run_folder, photos, capsys) -> None:
    assert predicted(run_folder, "package/media", "--format", "speciesnet") == 3
    entries = json.loads(capsys.readouterr().out)["predictions"]
    for entry, found in zip(entries, own(run_folder), strict=False):
        assert entry["prediction"] == f"{found.id};;;;;;{found.name}"  # ranks are not known
        assert entry["prediction_score"] == pytest.approx(found.probability)
        assert entry["classifications"]["classes"] == [entry["prediction"]]
    assert entries[2] == {
        "filepath": "package/media/d.png",
        "failures": ["CLASSIFIER"],
        "model_version": entries[0]["model_version"],
    }
    ranks = "class,order,family,genus,species,subspecies"
    words = ("package/media/c.png", "--format", "speciesnet", "--ranks", ranks, "--out", "s.json")
    assert predicted(run_folder, *words) == 0
    (entry,) = json.loads((photos.parents[1] / "s.json").read_text())["predictions"]
    found = own(run_folder)[1]
    taxa = [name.lower() for name in found.names[1:6]]
    assert entry["prediction"].split(";")[1:6] == taxa + [""] * (5 - len(taxa))
    assert (
        predicted(run_folder, "package/media/c.png", "--format", "speciesnet", "--ranks", "a,,b")
        == 2
    )
    assert "ranks" in capsys.readouterr().err


def test_a_coarse_answer_is_the_taxon_at_its_rank() -> None:
    names = ("Animalia", "Mammalia", "Carnivora", "Felidae", "Panthera", "Panthera leo")
    ids = tuple("abcdef")
    by = PredictedBy("m", ("class", "order", "family", "genus", "species"))
    whole = Prediction(ids, names, (1.0,) * 6)
    assert label_of(whole, by.ranks) == "f;mammalia;carnivora;felidae;panthera;leo;Panthera leo"
    family = Prediction(ids[:4], names[:4], (1.0,) * 4)
    assert label_of(family, by.ranks) == "d;mammalia;carnivora;felidae;;;Felidae"
    assert label_of(Prediction(ids[:1], names[:1], (1.0,)), by.ranks) == "a;;;;;;Animalia"
    assert label_of(Prediction(("x;y",), ("p;q",), (1.0,)), ()) == "x,y;;;;;;p,q"

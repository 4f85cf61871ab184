"""The command in the report makes the run again, from any folder."""

import shlex

import numpy as np
import pytest
from PIL import Image

from fedgrain.cli import main
from fedgrain.report.html import page_of
from fedgrain.runs.run_folder import RunFolder

TREE = "parent,child\nanimal,bird\nanimal,cat\nbird,kite\nbird,owl\n"
COLOURS = {"kite": (200, 30, 30), "owl": (30, 200, 30), "cat": (30, 30, 200)}


def write_site(folder):
    """Three classes at two sites; one of them names birds only as birds."""
    (folder / "images").mkdir(parents=True)
    (folder / "taxonomy.csv").write_text(TREE)
    random = np.random.default_rng(0)
    rows = ["path,label,client,split"]
    for number in range(60):
        truth = tuple(COLOURS)[number % 3]
        pixels = random.integers(0, 40, (8, 8, 3)) + np.array(COLOURS[truth])
        name = f"images/{number:02}.png"
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / name)
        split = "test" if number >= 36 else "train"
        client = ("museum", "zoo")[number // 3 % 2]
        coarse = client == "zoo" and truth != "cat" and split == "train"
        rows.append(f"{name},{'bird' if coarse else truth},{client},{split}")
    (folder / "images.csv").write_text("\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def own_run(tmp_path_factory):
    """A run on a user's folder, with paths relative to where it was started."""
    start = tmp_path_factory.mktemp("at work")
    write_site(start / "site")
    options = "--partition manifest --knowledge inferred --image-size 32 --rounds 2 --workers 1"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(start)
        typed = f"run --dataset folder --data-root site {options} --join-ratio 1 --out runs/one"
        assert main(shlex.split(typed)) == 0
    return start / "runs" / "one"


def test_run_it_again_from_the_runs_own_folder(own_run, monkeypatch, capsys):
    monkeypatch.chdir(own_run)
    page = page_of(RunFolder(".").path, images=False)
    assert page.notes == ()  # its images were found, although "site" is not here
    ((_, command),) = page.redo
    go, _, typed = command.partition(" && ")
    _, place = shlex.split(go)
    program, *words = shlex.split(typed)
    assert program == "fedgrain"
    monkeypatch.chdir("/")
    monkeypatch.chdir(place)
    capsys.readouterr()
    assert main(words) == 0
    again = own_run.parents[1] / "again" / "one"
    assert (again / "best.safetensors").read_bytes() == (own_run / "best.safetensors").read_bytes()


def test_scores_and_images_per_site_are_those_of_the_manifest(own_run, monkeypatch):
    monkeypatch.chdir("/")
    page = page_of(own_run, images=False)
    sites = next(section for section in page.sections if section.key == "sites")
    by_title = {sheet.title: sheet for sheet in sites.sheets}
    images = by_title["Images per site and depth of label"]
    shown = {row[0].text: [entry.text for entry in row[1:]] for row in images.rows}
    columns = [name for _, name in images.columns]
    assert columns[-3:] == ["root only", "depth 1", "depth 2"]
    assert shown["museum"][-3:-1] == ["0", shown["museum"][-2]]
    labels = by_title["Images per label and site"]
    counts = {row[0].text: [int(entry.text) for entry in row[1:]] for row in labels.rows}
    assert "bird / kite" in counts and counts["bird"][2] == 0  # depth, all, museum, zoo
    assert counts["bird"][1] == counts["bird"][3] > 0
    assert sum(count[1] for count in counts.values()) == sum(
        int(row[1].text) + int(row[2].text) for row in images.rows
    )
    scores = by_title["Scores of the final model per site, on the test images"]
    own = {row[0].text: int(row[1].text) for row in scores.rows}
    assert own == {"museum": 12, "zoo": 12}
    can_name = {row[0].text: int(row[4].text) for row in scores.rows}
    assert can_name == {"museum": 24, "zoo": 8}  # the zoo can name cats
    assert "24 test images that are labelled in full" in page.headline


def test_an_older_run_did_not_record_where_it_was_started(trained, tmp_path):
    from fedgrain.pages.redo import run_command, started_in

    place = RunFolder(tmp_path)
    assert started_in(place) is None
    config = shlex.quote(str(tmp_path / "config.toml"))
    assert run_command(place, False, "again/x") == f"fedgrain run {config} --out again/x"


def test_images_of_the_same_name_in_the_current_folder_are_not_those_of_the_run(
    own_run, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(own_run.parents[1])
    capsys.readouterr()
    assert main(["evaluate", str(own_run), "--json"]) == 0
    there = capsys.readouterr().out
    write_site(tmp_path / "site")
    manifest = tmp_path / "site" / "images.csv"
    manifest.write_text(manifest.read_text().replace(",cat,", ",owl,"))
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", str(own_run), "--json"]) == 0
    assert capsys.readouterr().out == there
    assert page_of(own_run, images=False).notes == ()
    assert main(["evaluate", str(own_run), "--data-root", "site", "--json"]) == 0
    assert capsys.readouterr().out != there  # asked for by name


@pytest.fixture
def other_labels(own_run):
    """The site has other labels than the run saw; they are put back after the test."""
    manifest = own_run.parents[1] / "site" / "images.csv"
    before = manifest.read_text()
    manifest.write_text(before.replace(",kite,museum,train", ",owl,museum,train"))
    yield manifest
    manifest.write_text(before)


def test_a_run_is_not_scored_nor_calibrated_on_other_labels_than_it_saw(
    own_run, other_labels, capsys
):
    before = (own_run / "model.json").read_bytes()
    for command in ("evaluate", "calibrate"):
        capsys.readouterr()
        assert main([command, str(own_run)]) == 2
        out, err = capsys.readouterr()
        assert not out and len(err.splitlines()) == 1
        assert "other images or labels" in err and "--manifest CSV" in err
    assert (own_run / "model.json").read_bytes() == before
    page = page_of(own_run, images=False)
    assert "other images or labels" in page.notes[0]
    assert [section.key for section in page.sections] == ["sites"]  # by what the run recorded


def test_a_finished_run_says_that_its_labels_have_changed_since(own_run, monkeypatch, capsys):
    monkeypatch.chdir(own_run.parents[1])
    again = ["run", str(own_run / "config.toml"), "--out", str(own_run)]
    assert main(again) == 0
    assert "has changed since" not in capsys.readouterr().err
    manifest = own_run.parents[1] / "site" / "images.csv"
    before = manifest.read_text()
    manifest.write_text(before.replace(",kite,museum,train", ",owl,museum,train"))
    try:
        assert main(again) == 0
    finally:
        manifest.write_text(before)
    err = capsys.readouterr().err
    assert "is finished, but its manifest, taxonomy or knowledge file has changed since" in err
    assert "--out" in err

"""``fedgrain predict`` as a user calls it: files, folders, patterns, manifests, lists, formats."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from fedgrain.cli import main
from fedgrain.errors import DataError
from fedgrain.folders.image_paths import ImagePath, find_images
from fedgrain.models import predict_files as files
from fedgrain.models import prediction_formats
from own_parts import few_glyphs

TESTS = Path(__file__).parents[1]
SMALL = [
    *("--dataset", "own_parts:few_glyphs", "--net", "own_parts:SmallNet", "--clients", "2"),
    *("--alpha", "0.5", "--max-children", "4", "--batch", "16", "--rounds", "1"),
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert main(["run", *SMALL, "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    """Three pictures in a folder and one below it, a broken one, and a file that is no picture."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for number, name in enumerate(("a.png", "b.JPG", "c.png", "more/d.png")):
        Image.fromarray(few_glyphs().images[number]).save(folder / name)
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    (folder / "notes.txt").write_text("a.png\n\nmore/d.png\n")
    (folder / ".hidden.png").write_bytes(b"")
    return folder


def predicted(run_folder, *arguments) -> int:
    return main(["predict", "--trust-code", str(run_folder), *map(str, arguments)])


def test_predict_prints_paths(run_folder, tmp_path, capsys) -> None:
    data = few_glyphs()
    paths = [str(tmp_path / f"{number}.png") for number in range(3)]
    for number, path in enumerate(paths):
        Image.fromarray(data.images[number]).save(path)
    assert main(["predict", "--trust-code", str(run_folder), *paths]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == paths
    assert all(" > " in line for line in lines)

    assert main(["predict", "--trust-code", str(run_folder), *paths, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["predictions"]
    leaves = [data.taxonomy.ids[leaf] for leaf in data.taxonomy.leaves]
    assert all(entry["path"][-1]["id"] in leaves for entry in told)

    assert (
        main(["predict", "--trust-code", str(run_folder), *paths, "--json", "--confidence", "0.6"])
        == 0
    )
    sure = json.loads(capsys.readouterr().out)["predictions"]
    for stopped, whole in zip(sure, told, strict=True):
        assert stopped["path"][-1]["probability"] >= 0.6
        assert len(stopped["path"]) <= len(whole["path"])
    assert main(["predict", "--trust-code", str(run_folder), paths[0], "--confidence", "1.0"]) == 0
    assert main(["predict", "--trust-code", str(run_folder), paths[0], "--confidence", "1.5"]) == 2
    capsys.readouterr()
    assert (
        main(["predict", "--trust-code", str(run_folder), *paths, "--json", "--expected-hf"]) == 0
    )
    weighed = json.loads(capsys.readouterr().out)["predictions"]
    assert all(len(entry["path"]) > 1 for entry in weighed)  # the root is worth nothing
    with pytest.raises(SystemExit, match="2"):  # one rule at a time
        main(
            [
                "predict",
                "--trust-code",
                str(run_folder),
                paths[0],
                "--expected-hf",
                "--confidence",
                "0.5",
            ]
        )


def test_a_broken_file_is_a_row_with_its_reason_and_exit_code_3(run_folder, photos, capsys):
    paths = [photos / "a.png", photos / "broken.png", "gone.png", photos / "c.png"]
    assert predicted(run_folder, *paths) == 3
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == list(map(str, paths))
    assert " > " in lines[0] and " > " in lines[3]
    assert lines[1].startswith(f"{paths[1]}: not read: ") and str(paths[1]) not in lines[1][20:]
    assert lines[2] == "gone.png: not read: there is no such file"
    assert err == "2 of 4 images could not be read\n"
    assert predicted(run_folder, photos / "a.png") == 0
    assert predicted(photos, photos / "a.png") == 2
    assert "no finished run here" in capsys.readouterr().err


def test_what_a_source_stands_for(photos, monkeypatch):
    (photos / "images.csv").write_text("label,path\nanything,c.png\n,more/d.png\n")
    (photos.parent / "here.txt").write_text("photos/a.png\n")
    every = ["a.png", "b.JPG", "broken.png", "c.png", "more/d.png"]
    expected = {
        "photos": [f"photos/{name}" for name in every],
        "photos/*.png": ["photos/a.png", "photos/broken.png", "photos/c.png"],
        "photos/**/d.*": ["photos/more/d.png"],
        "photos/images.csv": ["photos/c.png", "photos/more/d.png"],
        "photos/notes.txt": ["photos/a.png", "photos/more/d.png"],
        "here.txt": ["photos/a.png"],
        "-": ["photos/b.JPG", "x.png"],
        "photos/a.png": ["photos/a.png"],
    }
    for source, paths in expected.items():
        monkeypatch.setattr("sys.stdin", io.StringIO("photos/b.JPG\nx.png\n"))
        found = find_images([source])
        assert [image.path for image in found] == paths, source
        assert not any(image.problem for image in found)
    both = find_images(["photos/c.png", "photos"])
    assert [image.path for image in both][:2] == ["photos/c.png", "photos/a.png"]
    assert len(both) == 5  # each once


def test_a_source_without_images_is_a_row_and_one_that_cannot_be_read_an_error(photos):
    (photos / "empty").mkdir()
    found = find_images(["photos/*.gif", photos / "empty", "photos/a.png"])
    assert [bool(image.problem) for image in found] == [True, True, False]
    assert "no image matches" in found[0].problem and "without images" in found[1].problem
    (photos / "images.csv").write_text("file,label\na.png,kite\n")
    with pytest.raises(DataError, match=r"images\.csv, line 1: the header 'file,label' has no col"):
        find_images([photos / "images.csv"])
    with pytest.raises(DataError, match=r"none\.txt: there is no such list"):
        find_images(["none.txt"])


def test_links_out_of_a_folder_are_followed_only_if_asked(photos, tmp_path):
    private = tmp_path / "private"
    private.mkdir()
    shutil.copy(photos / "a.png", private / "secret.png")
    (photos / "link.png").symlink_to(private / "secret.png")
    (photos / "linked").symlink_to(private)
    (photos / "again.png").symlink_to("a.png")
    found = {image.path: image.problem for image in find_images(["photos"])}
    assert "leads out" in found["photos/link.png"] and not found["photos/again.png"]
    assert "photos/linked/secret.png" not in found
    found = {image.path: image.problem for image in find_images(["photos"], allow_links=True)}
    assert set(found.values()) == {""} and "photos/linked/secret.png" in found
    assert find_images(["photos/link.png"]) == [ImagePath("photos/link.png")]  # named openly


def test_the_same_rows_in_every_format(run_folder, photos, capsys):
    out = [photos / f"rows{ending}" for ending in (".csv", ".jsonl", ".json", ".txt")]
    assert predicted(run_folder, "photos", *(x for path in out for x in ("--out", path))) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[:-1] == [f"wrote {path}" for path in out]
    rows = list(csv.DictReader(io.StringIO(out[0].read_text())))
    lines = [json.loads(line) for line in out[1].read_text().splitlines()]
    assert json.loads(out[2].read_text()) == {"predictions": lines}
    assert [row["image"] for row in rows] == [line["image"] for line in lines]
    assert len(rows) == 5
    for row, line, text in zip(rows, lines, out[3].read_text().splitlines(), strict=True):
        assert text.startswith(f"{row['image']}: ")
        if row["problem"]:
            assert (line["path"], line["problem"]) == ([], row["problem"])
            assert row["label"] == row["probability"] == ""
            continue
        end = line["path"][-1]
        assert (row["label"], row["name"]) == (end["id"], end["name"])
        assert float(row["probability"]) == pytest.approx(end["probability"], rel=1e-5)
        assert row["path"].split(" > ") == [level["name"] for level in line["path"]]
        assert len(row["path_probabilities"].split(" > ")) == len(line["path"])
    assert [row["image"] for row in rows if row["problem"]] == ["photos/broken.png"]


def test_json_lines_are_printed_as_they_come(run_folder, photos, capsys):
    assert predicted(run_folder, "photos/a.png", "photos/c.png", "--format", "jsonl") == 0
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 2


def test_nothing_is_half_written(run_folder, photos, capsys, monkeypatch):
    out = photos.parent / "kept.csv"
    out.write_text("before")
    before = sorted(photos.parent.iterdir())
    assert predicted(run_folder, "photos", "--out", out, "--confidence", "7") == 2
    assert predicted(run_folder, "photos", "--out", photos.parent / "x.pdf") == 2
    assert "ends in .txt, .csv, .jsonl, .json, .html" in capsys.readouterr().err
    monkeypatch.setattr(files, "predict_block", lambda *_: [][1])
    with pytest.raises(IndexError):
        predicted(run_folder, "photos", "--out", out)
    assert out.read_text() == "before"
    assert sorted(photos.parent.iterdir()) == before


@pytest.mark.parametrize("second", ["nowhere/b.csv", "b.csv"])
def test_of_several_files_all_are_written_or_none(run_folder, photos, second, monkeypatch, capsys):
    """A folder that is a file; and photographs that no Camtrap DP package lists."""
    Path("nowhere").write_text("a file")
    before = sorted(photos.parent.iterdir())
    monkeypatch.setattr(files, "predict_block", lambda *_: [][1])  # found before it is called
    words = ("--out", "a.json", "--out", second)
    words += () if "/" in second else ("--format", "camtrap-dp")
    assert predicted(run_folder, "photos/a.png", *words) == 2
    out, err = capsys.readouterr()
    assert not out and len(err.splitlines()) == 1
    assert sorted(photos.parent.iterdir()) == before


def test_a_writer_that_fails_takes_the_other_files_with_it(run_folder, photos, monkeypatch):
    before = sorted(photos.parent.iterdir())
    monkeypatch.setitem(prediction_formats.FORMATS, "csv", lambda rows: (_ for _ in [][1]))
    with pytest.raises(IndexError):
        predicted(run_folder, "photos/a.png", "--out", "a.json", "--out", "b.csv")
    assert sorted(photos.parent.iterdir()) == before


def test_processes_give_the_same_rows(run_folder, photos, monkeypatch, capsys):
    """A block each: the first in this process, the others in two more."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    assert predicted(run_folder, "photos", "--json") == 3
    alone = capsys.readouterr().out
    monkeypatch.setattr(files, "_BLOCK", 2)
    monkeypatch.setattr(files, "_WORTH_PROCESSES", 0.0)
    monkeypatch.setenv("FEDGRAIN_WORKERS", "2")
    started = []
    real = files.process_map
    monkeypatch.setattr(files, "process_map", lambda many: started.append(many) or real(many))
    assert predicted(run_folder, "photos", "--json") == 3
    assert started == [2]
    assert capsys.readouterr().out == alone


def test_file_names_that_are_not_utf_8(run_folder, photos, capsys):
    strange = os.fsdecode(os.fsencode(photos) + b"/caf\xe9\n.png")
    shutil.copy(photos / "a.png", strange)
    for form in ("text", "csv", "jsonl", "json", "html"):
        assert predicted(run_folder, strange, "--format", form) == 0
        assert "caf\\udce9" in capsys.readouterr().out, form


def test_the_page_of_thumbnails(run_folder, photos, capsys):
    (photos / "<b>e.png").write_bytes((photos / "a.png").read_bytes())
    assert predicted(run_folder, "photos", "--out", photos / "page.html") == 3
    page = (photos / "page.html").read_text()
    assert "5 images in " in page and "1 could not be read." in page
    assert page.count('src="data:image/jpeg;base64,') == 5
    assert "&lt;b&gt;e.png" in page and "<b>e" not in page
    assert "<script" not in page and "http://" not in page and "https://" not in page
    assert re.search(r"broken\.png</th><td>", page)


def test_predict_starts_without_what_it_does_not_need(run_folder, photos):
    """Sympy and plotly take half a second each to import."""
    script = (
        "import sys; from fedgrain.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "slow = {'sympy', 'plotly', 'matplotlib', 'jinja2', 'pandas', 'torch._dynamo'}\n"
        "print(sorted(slow & set(sys.modules))); sys.exit(code)\n"
    )
    command = [sys.executable, "-c", script, "predict", "--trust-code", run_folder, "photos/a.png"]
    there = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, capture_output=True, text=True, env=there, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"

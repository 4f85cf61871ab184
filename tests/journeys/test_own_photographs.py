"""docs/own-data.md and README typed as they stand, with a user's own photographs.

The commands come from the pages (``doc_pages``): who changes a page changes what is typed here.
Between them the person does what the messages say. Only where it is said are fewer rounds asked for
than on the page, for time.
"""

import csv
import re
import subprocess
import tomllib
from collections import Counter
from importlib.metadata import metadata
from pathlib import Path

import pytest

from doc_pages import ROOT, command, commands, mentioned
from own_photographs import RARE, SITES, write_photographs

PAGE = "docs/own-data.md"
FILES = {"best.safetensors", "config.toml", "metrics.jsonl", "model.json", "result.json"}


@pytest.fixture
def desk(tmp_path, monkeypatch, fedgrain):
    """A folder to work in, with the photographs in ``site``; returns how to type a command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDGRAIN_CACHE", str(tmp_path / "cache"))
    write_photographs(Path("site"), train=5, test=2)

    def type_in(words: list[str], *more: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        assert words[0] == "fedgrain"
        done = fedgrain(*words[1:], *more)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr and "UserWarning" not in done.stderr
        return done

    return type_in


def rows(name: str = "site/images.csv") -> list[dict[str, str]]:
    with Path(name).open(newline="") as file:
        return list(csv.DictReader(file))


def supervision() -> str:
    """What the page says is the default where knowledge is inferred."""
    text = (ROOT / PAGE).read_text("utf-8")
    return re.findall(r"the default supervision is then `(\w+)`", text)[0]


def corrected(desk) -> None:
    """Follow what the commands say about the spelling, until the manifest is right."""
    told = desk(command(PAGE, "fedgrain", "data", "show"), code=2).stderr
    wrong = Counter(row["label"] for row in rows() if row["label"] in ("brid", "canien"))
    assert told.count("\n") == 1
    assert f"site/images.csv: 2 mistakes in {wrong.total()} rows" in told
    first = 2 + [row["label"] for row in rows()].index("brid")
    assert f"line {first}: the label 'brid' is not a node" in told
    assert "did you mean 'bird' or 'bear'?" in told and "fedgrain data fix writes a copy" in told
    before = Path("site/images.csv").read_bytes()
    fixed = desk(mentioned(PAGE, "fedgrain data fix"), code=3).stdout
    assert f"label 'canien' to 'canine' ({wrong['canien']} rows)" in fixed
    left = fixed.partition("left for you:")[2]
    assert f"line {first}: the label 'brid'" in left and "canien" not in left
    assert Path("site/images.csv").read_bytes() == before  # only the copy is another
    text = Path("site/images-fixed.csv").read_text()
    assert ",canien," not in text
    Path("site/images.csv").write_text(text.replace(",brid,", ",bird,"))


def test_from_nothing_to_a_report_and_predictions(desk):
    installed()
    corrected(desk)
    show = desk(command(PAGE, "fedgrain", "data", "show"))
    looked_at(show.stdout)
    lines = Path("site/images.csv").read_text().splitlines(keepends=True)
    Path("site/images.csv").write_text("".join(line for line in lines if "copy.jpg" not in line))
    assert "LEAKAGE" not in desk(command(PAGE, "fedgrain", "data", "show")).stdout
    done = desk(command(PAGE, "fedgrain", "run"))
    planned(done.stderr)
    scored(done.stdout)
    assert {path.name for path in Path("runs/site").iterdir()} >= FILES
    reported(desk(command(PAGE, "fedgrain", "report", "runs/site")).stdout)
    predicted(desk)


def installed() -> None:
    """The page's pip command gives what it names; it is not typed, without a network."""
    _, _, needed, *others = command(PAGE, "pip", "install")
    offered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extra,) = re.findall(r"fedgrain\[(\w+)\]", needed)
    named = [*offered["optional-dependencies"][extra], *others]
    assert all(metadata(re.split("[<>=]", one)[0])["Name"] for one in named)


def looked_at(shown: str) -> None:
    """What a data manager needs: who has how much, what is broken, what leaks."""
    for site in SITES:
        counts = Counter(row["split"] for row in rows() if row["client"] == site)
        line = rf"^  {site} +{counts['train']} +{counts['test']} +{counts.total()}$"
        assert re.search(line, shown, flags=re.M), site
    assert "labels with a single image: 2" in shown
    assert re.search(r"pixels: colour \d+, grey \d+, .*transparency \d+, palette \d+, CMYK", shown)
    assert int(re.search(r"turned upright by EXIF: (\d+)", shown)[1]) > 20
    assert "images/0000.jpg (train, museum) = site/images/copy.jpg (test, zoo)" in shown
    assert "LEAKAGE: 1 copy of training images among those to validate or test on" in shown
    assert "1 unreadable images skipped:\n  site/images/cut.jpg" in shown


def planned(told: str) -> None:
    """Before training: what was skipped, and the plan in one block."""
    listed = rows()
    assert told.count("warning:") == 2
    assert f"1 of {len(listed)} images cannot be read and were skipped: site/images/cut" in told
    assert "2 classes have a single image, which is trained on" in told
    assert all(name in told for name in RARE)
    block = told[told.index("\ndata  ") : told.index("\ntraining")]
    assert "real labels: 3 sites by the manifest, what they know: inferred" in block
    knows = {"museum": "10 of 10", "zoo": "3 of 10", "volunteers": "0 of 10"}
    for site, known in knows.items():
        assert re.search(rf"^  {site} +\d+ .* {known} classes", block, flags=re.M), site
    assert "net timm:tf_efficientnet_lite0 (pretrained; trained: head)" in block
    assert f"head flat-softmax, supervision {supervision()}" in block
    assert re.search(r"validation  by the server: \d+ images, \d+% of their labels are", block)
    assert re.search(r"round \d+ took .* s: at most \d+ more take about", told)


def scored(told: str) -> None:
    """After training: the scores, each with what it was measured against."""
    against = r"validation HF 0\.\d+ over \d+ leaf labels \(\d+% of \d+\), 0\.\d+ over all, cut"
    assert re.search(against, told)
    found = re.search(r"^HF (0\.\d+) .* on the test images$", told, flags=re.M)
    assert float(found[1]) > 0.4  # the same answer for every image has 0.25
    assert "everything is in runs/site" in told


def reported(told: str) -> None:
    """The headline for everyone, and a page that names the sites and classes."""
    tests = sum(row["split"] == "test" for row in rows())
    assert re.match(rf"Of {tests} images it has not seen, it names the right class of \d+", told)
    assert "report: runs/site/report.html" in told
    page = Path("runs/site/report.html").read_text("utf-8")
    assert "No closer look" not in page
    assert all(name in page for name in (*SITES, "bald eagle", "red fox"))


def predicted(desk) -> None:
    """README's last command, on a folder with a file that is no image."""
    Path("new-photos").mkdir()
    photographs = sorted(Path("site/images").glob("002*"))
    for path in photographs:
        (Path("new-photos") / path.name).write_bytes(path.read_bytes())
    whole = Path("site/images/0000.jpg").read_bytes()
    Path("new-photos/broken.jpg").write_bytes(whole[: len(whole) // 2])
    done = desk(command(PAGE, "fedgrain", "predict"), code=3)
    assert f"1 of {len(photographs) + 1} images could not be read" in done.stderr + done.stdout
    table = rows("predictions.csv")
    assert len(table) == len(photographs) + 1
    (broken,) = [row for row in table if row["problem"]]
    assert broken["image"].endswith("broken.jpg") and not broken["label"]
    assert all(row["path"].startswith("animal") for row in table if not row["problem"])
    thumbnails = Path("predictions.html").read_text("utf-8")
    assert thumbnails.count("data:image") >= len(photographs) and "broken.jpg" in thumbnails


def test_better_than_alone(desk):
    corrected(desk)
    study = command(PAGE, "fedgrain", "study", "alone")
    told = desk(study, "--rounds", "2", "--jobs", "1")  # two rounds: for time
    told_alone(told.stdout, told.stderr)
    assert "alone.png" in told.stdout and Path("studies/alone/figures/alone.png").exists()
    desk(mentioned(PAGE, "fedgrain report studies/alone"))
    page = Path("studies/alone/report.html").read_text("utf-8")
    assert "Better than alone" in page and "Of 3 sites, each on its own test images" in page


def told_alone(table: str, beside: str) -> None:
    """A row and a sentence for each site and one for all, with intervals."""
    assert table.startswith(f"Better than alone? folder, flat-softmax/{supervision()}\n")
    number, signed = r"\d\.\d+", r"[+-]\d\.\d+"
    for site in SITES:
        tests = sum(row["split"] == "test" for row in rows() if row["client"] == site)
        figures = rf"{tests} +{tests}( +{number}){{3}}( +{signed}){{3}}"
        assert re.search(rf"^{site}, own images +{figures}$", table, flags=re.M), site
        verdict = r"(better together|worse together|no clear difference)\.$"
        assert re.search(rf"^Site {site}: alone .* 95 % interval .* {verdict}", table, flags=re.M)
    assert re.search(r"^Of 3 sites, each on its own test images: .* All sites: alone", table, re.M)
    assert beside.count("cannot be read and were skipped") == 1  # of five runs


def test_every_command_of_the_page_is_typed_here():
    """Or in tests/studies/test_alone.py: the comparison of methods."""
    typed = {"data show", "run --dataset", "report runs/site", "predict runs/site", "study alone"}
    there = {" ".join(words[1:3]) for words in commands(PAGE) if words[0] == "fedgrain"}
    assert there - {"study compare.toml", "report studies/compare"} == typed

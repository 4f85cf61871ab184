"""docs/import.md typed as it stands: its commands, its data, its names file, its own reader."""

import csv
import io
import json
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from attacks.harness import fedgrain
from doc_pages import ROOT, command, commands, mentioned
from fedgrain.catalogue import IMPORTERS
from fedgrain.folders.folder import read_tree
from import_samples import SAMPLES
from own_photographs import write_photographs

PAGE = "docs/import.md"
TEXT = (ROOT / PAGE).read_text("utf-8")
SAMPLE = {sample.name: sample for sample in SAMPLES}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def shown(heading, number=0):
    """Return a block that the page shows under a heading."""
    section = re.split(r"^##+ ", TEXT.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.M)[0]
    return re.findall(r"^```\w*\n(.*?)^```", section, flags=re.S | re.M)[number]


def pictures(*names):
    for number, name in enumerate(names):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (number, 90, 30)).save(name)


def typed(*beginning, more=(), code=0):
    """Type the command of the page that begins so; return what it told."""
    words = [*command(PAGE, "fedgrain", *beginning), *more]
    told = fedgrain(*words[1:])
    assert told.code == code, told.err
    return told


def labels(folder="my-data"):
    with Path(folder, "images.csv").open() as file:
        return {Path(row["path"]).name: row["label"] for row in csv.DictReader(file)}


def test_the_table_says_of_every_format_what_is_read_and_what_is_ignored():
    section = re.split(r"^##+ ", TEXT.partition("## Formats\n")[2], maxsplit=1, flags=re.M)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:3] == "| `"]
    assert [row[0].strip("`") for row in rows] == [*IMPORTERS, "module:callable"]
    nothing_ignored = ("`edges`", "`module:callable`")
    assert all(len(row) == 3 and row[1] for row in rows if row[0] not in nothing_ignored)
    headings = re.findall(r"^### (.*)", TEXT, flags=re.M)
    assert {name for heading in headings for name in heading.split(" and ")} == set(IMPORTERS)


def test_every_command_of_the_page_is_typed_here():
    beginnings = [tuple(words[1:4]) for words in commands(PAGE)]
    assert sorted(beginnings) == sorted([
        ("import", "table", "sightings.csv"), ("data", "show", "--dataset"),
        ("run", "--dataset", "folder"), ("import", "dwca", "0012345-240101.zip"),
        ("import", "camtrap-dp", "my-project/datapackage.json"),
        ("import", "coco", "train.json"), ("import", "imagefolder", "data"),
        ("import", "hf-dataset", "saved"), ("import", "label-studio", "config.xml"),
        ("import", "folders", "photos"), ("import", "paths", "site.csv"),
    ])  # fmt: skip


def test_a_table_then_the_data_then_a_run(monkeypatch):
    """The first three commands, with photographs; for time the run has one round of tiny images."""
    monkeypatch.setenv("FEDGRAIN_CACHE", str(Path("cache").resolve()))
    write_photographs(Path("site"), train=3, test=1)
    tree = read_tree(Path("site"), None)
    with Path("site/images.csv").open() as old, Path("sightings.csv").open("w") as new:
        new.write("family,species,path,site,split\n")
        for row in csv.DictReader(old):
            if row["label"] in tree.ids and "cut" not in row["path"]:
                path = [tree.ids[node] for node in tree.path(tree.index(row["label"]))[1:]]
                cells = [*path, *[""] * (2 - len(path)), f"site/{row['path']}"]
                new.write(",".join([*cells, row["client"], row["split"]]) + "\n")
    told = typed("import", "table")
    assert "3 sites: museum" in told.out and "wrote my-data" in told.err
    assert "of 15 nodes, depth 2" in typed("data", "show").out
    small = ("--rounds", "1", "--image-size", "16", "--workers", "1")
    typed("run", "--dataset", more=small)
    assert Path("runs/first/result.json").exists()


def test_the_data_that_the_page_shows():
    pictures("1.png", "2.png")
    Path("t.csv").write_text(shown("table"))
    assert fedgrain("import", "table", "t.csv", "--out", "t").code == 0
    assert labels("t") == {"1.png": "Felis catus", "2.png": "Felis"}
    felis = read_tree(Path("t"), None)
    assert felis.ids[felis.parents[felis.index("Felis")]] == "Felidae"  # another row knows it
    found = {}
    for form, block in (("paths", shown("paths")), ("speciesnet", shown("speciesnet")),
                        ("indented", shown("indented and edges")),
                        ("edges", shown("indented and edges", 1))):  # fmt: skip
        Path("source.txt").write_text(block)
        assert fedgrain("import", form, "source.txt", "--out", form).code == 0
        found[form] = read_tree(Path(form), None)
    supplies = ("Animals & Pet Supplies", "Pet Supplies", "Bird Supplies")
    assert found["paths"].ids == supplies
    uuid = "ddf59264-185a-4d35-b647-2785792bdf54"
    assert set(found["speciesnet"].synonyms["panthera leo"]) == {"lion", uuid}
    assert found["indented"] == found["edges"] and found["edges"].ids == ("animal", "bird", "kite")


def test_several_sources_make_one_tree():
    head, one, two = shown("table").splitlines()
    Path("kiel.csv").write_text(f"{head}\n{one}\n")
    Path("ulm.csv").write_text(f"{head}\n{two}\n")
    pictures("1.png", "2.png")
    assert fedgrain(*mentioned(PAGE, "fedgrain import table kiel.csv")[1:]).code == 0
    assert labels("both") == {"1.png": "Felis catus", "2.png": "Felis"}


def test_speciesnets_predictions():
    SAMPLE["speciesnet predictions"].write(Path())
    assert fedgrain(*mentioned(PAGE, "fedgrain import speciesnet")[1:]).code == 0
    assert labels() == {"1.png": "panthera leo", "2.png": "panthera", "3.png": "blank"}


def test_packages():
    SAMPLE["dwca occurrences"].write(Path())
    Path("media").rename("downloads")
    with zipfile.ZipFile("0012345-240101.zip", "w") as archive:
        for path in Path("archive").iterdir():
            archive.write(path, path.name)
    typed("import", "dwca")
    assert labels()["4.png"] == "Pica"
    shutil.rmtree("my-data")
    SAMPLE["camtrap"].write(Path())
    Path("package").rename("my-project")
    typed("import", "camtrap-dp")
    assert labels()["3.jpg"] == "blank"


def test_coco():
    whole = json.loads(SAMPLE["inaturalist"].files["train.json"])
    for name, number in (("train", 1), ("val", 2)):
        images = [{**image, "file_name": f"{name}/{number}.png"} for image in whole["images"]
                  if image["id"] == number]  # fmt: skip
        kept = [one for one in whole["annotations"] if one["image_id"] == number]
        text = json.dumps({**whole, "images": images, "annotations": kept})
        Path(f"{name}.json").write_text(text)
        pictures(f"inat2021/{name}/{number}.png")
    typed("import", "coco")
    assert labels() == {"1.png": "Lumbricus terrestris", "2.png": "Sabella spallanzanii"}
    assert "validation 1" in Path("my-data/import.txt").read_text()


def test_hugging_face():
    import datasets

    pictures("data/1.png")
    Path("data/metadata.jsonl").write_text(shown("imagefolder and hf-dataset"))
    typed("import", "imagefolder")
    assert labels() == {"1.png": "cat"}
    assert "site: Kiel 1" in Path("my-data/import.txt").read_text()
    shutil.rmtree("my-data")
    picture = io.BytesIO(Path("data/1.png").read_bytes()).getvalue()
    rows = {"image": [{"bytes": picture, "path": None}], "label": ["x"], "species": ["bird/kite"]}
    features = datasets.Features({
        "image": datasets.Image(), "label": datasets.Value("string"),
        "species": datasets.Value("string"),
    })  # fmt: skip
    datasets.Dataset.from_dict(rows, features=features).save_to_disk("saved")
    typed("import", "hf-dataset")
    assert list(labels().values()) == ["kite"]


def test_label_studio():
    Path("config.xml").write_text(shown("label-studio"))
    tasks = json.loads(SAMPLE["label studio"].files["export.json"])
    Path("export.json").write_text(json.dumps(tasks[:1]))  # its alias is in the config shown
    pictures("label-studio/media/1.png")
    typed("import", "label-studio")
    assert labels() == {"1.png": "Human"}
    assert read_tree(Path("my-data"), None).synonyms == {"Human": ("hsa",)}


def test_folders():
    pictures(*shown("folders").split())
    typed("import", "folders")
    assert labels() == {"1.png": "animal", "2.png": "cat"}


def test_a_sites_words():
    """The file to fill in is the one that the page shows; filled in, it is taken."""
    tree = (
        "parent,child,name\nlife,Animalia,\nlife,Plantae,\nAnimalia,g1,Morus\nPlantae,g2,Morus\n"
        "Animalia,Felis catus,\n"
    )
    Path("tree.csv").write_text(tree)
    words = ["Felis cattus"] * 12 + ["Morus"] * 3 + ["felis CATUS"]
    pictures(*(f"{number}.png" for number in range(len(words))))
    rows = [f"{number}.png,{word}" for number, word in enumerate(words)]
    Path("site.csv").write_text("file,label\n" + "\n".join(rows) + "\n")
    typed("import", "paths", code=3)
    block = shown("Names: your tree, a site's words", 1)
    filled = Path("my-data/words.csv")
    assert filled.read_text() == block
    assert [path.name for path in Path("my-data").iterdir()] == ["words.csv"]
    text = block.replace("Felis cattus,,", "Felis cattus,Felis catus,").replace(
        "Morus,,", "Morus,-,"
    )
    filled.write_text(text)
    (option,) = set(re.findall(r"`--names (my-data/words\.csv)`", TEXT))
    typed("import", "paths", more=("--names", option))
    assert set(labels().values()) == {"Felis catus"} and len(labels()) == 13
    assert filled.read_text() == text  # the file stays
    typed("import", "paths", more=("--skip-unknown", "--replace"))
    assert len(labels()) == 1


def test_a_reader_of_your_own(monkeypatch):
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.delitem(sys.modules, "tags", raising=False)
    block = shown("Your own reader")
    name = block.splitlines()[0].removeprefix("# ")
    Path(name).write_text(block)
    pictures("1.png", "2.png")
    Path("labels.txt").write_text("1.png animal cat\n2.png animal\n")
    told = fedgrain(*mentioned(PAGE, "fedgrain import tags:read")[1:])
    assert told.code == 0, told.err
    assert labels() == {"1.png": "cat", "2.png": "animal"} and "site: zoo 2" in told.out

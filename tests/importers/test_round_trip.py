"""What fedgrain writes for other programs it reads again: the same label for every image.

Our own tree is in test_importing.py. Both commands are real; only the model is not: it finds every
node of a tree once.
"""

import csv
import json
from pathlib import Path

import pytest
from PIL import Image

from fedgrain.catalogue import EXCHANGE_FORMATS
from fedgrain.cli import main
from fedgrain.folders.folder import read_tree
from fedgrain.models.predict_files import PredictedFile
from fedgrain.models.trained_model import Prediction
from fedgrain.taxonomy import Taxonomy, write_csv
from import_packages import CAMTRAP

RANKS = "class,order,family,genus,species"
PATHS = (
    ("mammalia", "carnivora", "felidae", "panthera", "panthera leo"),
    ("mammalia", "carnivora", "felidae", "panthera", "panthera onca"),
    ("mammalia", "primates", "hominidae", "gorilla", "gorilla gorilla"),
    ("aves", "suliformes", "sulidae", "morus", "morus bassanus"),
)
TREE = Taxonomy.from_edges(
    {edge: None for path in PATHS for edge in zip(("animal", *path), path, strict=False)}
)
NAMES = [f"no {node:02}.png" for node in range(len(TREE))]
LABELS = dict(zip(NAMES, TREE.ids, strict=True))


@pytest.fixture
def predicted(tmp_path, monkeypatch):
    """Predict an image for every node of the tree in a format, by the command, in a package."""
    monkeypatch.chdir(tmp_path)
    media = tmp_path / "package" / "media"
    media.mkdir(parents=True)
    lines = ["mediaID,deploymentID,timestamp,filePath"]
    for node, name in enumerate(NAMES):
        Image.new("RGB", (4, 4), (node, 0, 0)).save(media / name)
        lines.append(f"m{node},00a2c20d,2020-05-30T04:57:37Z,media/{name}")
    (media.parent / "media.csv").write_text("\n".join(lines) + "\n")

    def of_every_node(folder, images, asked, **_):
        for node, image in enumerate(images):
            names = tuple(TREE.names[above] for above in TREE.path(node))
            yield PredictedFile(image.path, Prediction(names, names, (0.9,) * len(names)))

    monkeypatch.setattr("fedgrain.models.predict_files.predict_files", of_every_node)

    def written(form, out):
        words = ["--format", form, "--ranks", RANKS, "--out", out]
        assert main(["predict", "model", "package/media", *words]) == 0

    return written


def read_again(*words):
    assert main(["import", *words, "--out", "read"]) == 0
    with Path("read/images.csv").open() as file:
        return {row["path"].rpartition("/")[2]: row for row in csv.DictReader(file)}


def labels(rows):
    return {name: row["label"] for name, row in rows.items()}


def test_every_format_that_predictions_are_written_in_is_here():
    assert set(EXCHANGE_FORMATS) == {"speciesnet", "label-studio", "camtrap-dp"}


def test_speciesnet(predicted):
    predicted("speciesnet", "p.json")
    assert labels(read_again("speciesnet", "p.json")) == LABELS
    assert read_tree(Path("read"), None) == TREE


def test_label_studio(predicted):
    predicted("label-studio", "tasks.json")
    rows = read_again("label-studio", "tasks.json", "--root", "animal")
    below = {name: label for name, label in LABELS.items() if label != "animal"}
    assert labels(rows) == below  # the root is no choice, so its task has none
    assert read_tree(Path("read"), None) == TREE
    (annotator,) = {row["annotator"] for row in rows.values()}
    assert annotator.startswith("fedgrain ") and annotator.endswith(": model")


def test_camtrap_dp(predicted):
    package = json.loads(CAMTRAP["package/datapackage.json"])
    Path("package/datapackage.json").write_text(json.dumps({**package, "taxonomic": []}))
    Path("package/deployments.csv").write_text(CAMTRAP["package/deployments.csv"])
    predicted("camtrap-dp", "package/observations.csv")
    write_csv(TREE, "tree.csv")  # observations have names, not a tree
    rows = read_again("camtrap-dp", "package", "--taxonomy", "tree.csv")
    assert labels(rows) == LABELS
    assert read_tree(Path("read"), None) == TREE

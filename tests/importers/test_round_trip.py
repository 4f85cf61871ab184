"""What fedgrain writes for other programs it reads again: the same label for every image."""

import csv
import json

import pytest
from PIL import Image

from fedgrain.catalogue import EXCHANGE_FORMATS
from fedgrain.errors import DataError
from fedgrain.folders.folder import read_tree
from fedgrain.importers import ImportOptions, import_data
from fedgrain.models.exchange import PredictedBy
from fedgrain.models.predict_files import PredictedFile
from fedgrain.models.trained_model import Prediction
from fedgrain.plugins import load_callable
from fedgrain.taxonomy import Taxonomy, write_csv
from import_packages import CAMTRAP

RANKS = ("class", "order", "family", "genus", "species")
PATHS = (
    ("mammalia", "carnivora", "felidae", "panthera", "panthera leo"),
    ("mammalia", "carnivora", "felidae", "panthera", "panthera onca"),
    ("mammalia", "primates", "hominidae", "gorilla", "gorilla gorilla"),
    ("aves", "suliformes", "sulidae", "morus", "morus bassanus"),
)


@pytest.fixture
def tree() -> Taxonomy:
    edges = {edge: None for path in PATHS for edge in zip(("animal", *path), path, strict=False)}
    return Taxonomy.from_edges(edges)


@pytest.fixture
def predicted(tree, tmp_path):
    """An image for every node of the tree, predicted to be that node."""
    (tmp_path / "media").mkdir()
    rows = []
    for node in range(len(tree)):
        name = tmp_path / "media" / f"{node}.png"
        Image.new("RGB", (4, 4), (node, 0, 0)).save(name)
        names = tuple(tree.names[above] for above in tree.path(node))
        found = Prediction(names, names, (0.9,) * len(names))
        rows.append(PredictedFile(str(name), found))
    return rows


def labels(folder):
    with (folder / "images.csv").open() as file:
        return {row["path"].rpartition("/")[2]: row["label"] for row in csv.DictReader(file)}


def written(form, rows):
    write = load_callable(EXCHANGE_FORMATS[form].home, "format", DataError)
    return "".join(write(rows, PredictedBy("a model", RANKS)))


def test_every_format_that_predictions_are_written_in_is_here():
    assert set(EXCHANGE_FORMATS) == {"speciesnet", "label-studio", "camtrap-dp"}


def test_speciesnet(tree, predicted, tmp_path):
    (tmp_path / "p.json").write_text(written("speciesnet", predicted))
    import_data("speciesnet", [tmp_path / "p.json"], tmp_path / "out")
    assert labels(tmp_path / "out") == {f"{node}.png": name for node, name in enumerate(tree.ids)}
    assert read_tree(tmp_path / "out", None) == tree


def test_label_studio(tree, predicted, tmp_path):
    (tmp_path / "tasks.json").write_text(written("label-studio", predicted))
    options = ImportOptions(root="animal")
    account = import_data("label-studio", [tmp_path / "tasks.json"], tmp_path / "out", options)
    below = {f"{node}.png": name for node, name in enumerate(tree.ids) if node}
    assert labels(tmp_path / "out") == below  # the root is no choice, so its task has none
    assert read_tree(tmp_path / "out", None) == tree
    assert {row.image.annotator for row in account.rows} == {"a model"}


def test_camtrap_dp(tree, predicted, tmp_path):
    for name in ("datapackage.json", "deployments.csv"):
        (tmp_path / name).write_text(CAMTRAP[f"package/{name}"])
    media = ["mediaID,deploymentID,timestamp,filePath"]
    media += [
        f"m{node},00a2c20d,2020-05-30T04:57:37Z,media/{node}.png" for node in range(len(tree))
    ]
    (tmp_path / "media.csv").write_text("\n".join(media) + "\n")
    (tmp_path / "observations.csv").write_text(written("camtrap-dp", predicted))
    package = json.loads((tmp_path / "datapackage.json").read_text())
    (tmp_path / "datapackage.json").write_text(json.dumps({**package, "taxonomic": []}))
    write_csv(tree, tmp_path / "tree.csv")
    options = ImportOptions(taxonomy=tmp_path / "tree.csv")  # observations have names, not a tree
    account = import_data("camtrap-dp", [tmp_path], tmp_path / "out", options)
    assert account.words_file is None, account.unknown
    assert labels(tmp_path / "out") == {f"{node}.png": name for node, name in enumerate(tree.ids)}

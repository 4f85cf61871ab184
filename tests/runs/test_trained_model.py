"""A model is its folder: it predicts on another machine, without the data."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import fedgrain
from fedgrain.checked_json import read_checked_json, write_checked_json
from fedgrain.errors import DataError, RunError
from fedgrain.images.any_images import as_pixels
from fedgrain.runs.evaluate import evaluate
from fedgrain.runs.run_folder import RunFolder
from fedgrain.taxonomy import Taxonomy
from own_parts import few_glyphs


@pytest.fixture(scope="module", params=["fedavg", "fedbdft"])
def result(request, small, tmp_path_factory) -> fedgrain.Result:
    config = small(algorithm=request.param, rounds=2, cycles=1)
    return fedgrain.run(config, tmp_path_factory.mktemp(request.param) / "run")


def test_a_copied_folder_predicts_the_same(result, python, tmp_path) -> None:
    """In another process, without the module of the data set and without FEDGRAIN_DATA."""
    shutil.copytree(result.folder, tmp_path / "copy")
    np.save(tmp_path / "images.npy", few_glyphs().images[:7])
    script = (
        "import sys, json, os, numpy, fedgrain\n"
        "import own_parts; del own_parts.few_glyphs\n"
        "found = fedgrain.load(sys.argv[1], trust_code=True).predict(numpy.load(sys.argv[2]))\n"
        "print(json.dumps([[f.ids, f.names, f.probabilities] for f in found]))\n"
    )
    done = python(script, tmp_path / "copy", tmp_path / "images.npy", FEDGRAIN_DATA="/nowhere")
    assert done.returncode == 0, done.stderr
    here = [[f.ids, f.names, f.probabilities] for f in result.predict(few_glyphs().images[:7])]
    there = json.loads(done.stdout)
    assert [row[:2] for row in there] == json.loads(json.dumps([row[:2] for row in here]))
    for one, other in zip(here, there, strict=True):
        assert one[2] == pytest.approx(other[2], abs=1e-6)


def test_paths_and_probabilities(result) -> None:
    data = few_glyphs()
    for found in result.predict(data.images[:9]):
        assert found.ids[0] == data.taxonomy.ids[0]
        assert found.ids[-1] in [data.taxonomy.ids[leaf] for leaf in data.taxonomy.leaves]
        assert found.probabilities[0] == pytest.approx(1.0)
        assert sorted(found.probabilities, reverse=True) == list(found.probabilities)
    sure = result.predict(data.images[:9], rule="threshold", threshold=0.5)
    assert all(found.probabilities[-1] >= 0.5 for found in sure)
    assert result.predict(data.images[:0]) == []


def test_evaluation_repeats_the_result(result) -> None:
    scores = evaluate(fedgrain.load(result.folder, trust_code=True), few_glyphs())
    compared = ("edge_distance", "lca_depth", "information_hf", "information_hr", "information_hp")
    micro = ("micro_hf", "micro_hr", "micro_hp")
    for name in ("hf", "hr", "hp", "accuracy", "samples", *compared, *micro):
        assert scores[name] == pytest.approx(result.values[name], abs=1e-12)
    with pytest.raises(DataError, match="no split 'validation'"):
        evaluate(result.model, few_glyphs(), "validation")


def test_images_in_any_form_are_the_same_image(result, tmp_path) -> None:
    pixels = few_glyphs().images[0].copy()
    Image.fromarray(pixels).save(tmp_path / "a.png")
    opaque = np.concatenate([pixels, np.full((32, 32, 1), 255, np.uint8)], axis=2)
    forms = {
        "array": pixels,
        "batch": pixels[None],
        "path": tmp_path / "a.png",
        "text": str(tmp_path / "a.png"),
        "PIL": Image.fromarray(pixels),
        "fractions": pixels.astype(np.float32) / 255,
        "wide whole numbers": pixels.astype(np.int64),
        "16 bits": pixels.astype(np.uint16) * 256,
        "RGBA": opaque,
        "tensor": torch.from_numpy(pixels).permute(2, 0, 1),
        "tensor of fractions": torch.from_numpy(pixels).permute(2, 0, 1) / 255,
        "tensor in double precision": torch.from_numpy(pixels).permute(2, 0, 1).double() / 255,
        "tensor with the channels last": torch.from_numpy(pixels.copy()),
        "tensor with a gradient": (torch.from_numpy(pixels) / 255).requires_grad_(),
        "array with the channels first": pixels.transpose(2, 0, 1),
    }
    for name, form in forms.items():
        assert np.array_equal(result.model.pixels(form), pixels[None]), name
    expected = result.predict(pixels[None])
    assert result.predict(list(forms.values())[2:]) == expected * (len(forms) - 2)
    assert result.predict(tmp_path / "a.png") == expected
    assert expected[0].name == expected[0].names[-1] and expected[0].id == expected[0].ids[-1]


def test_tensors_of_any_size_and_kind(result) -> None:
    draw = torch.Generator().manual_seed(0)
    colour = torch.randint(0, 256, (3, 50, 44), dtype=torch.uint8, generator=draw)
    wanted = result.model.pixels(colour.permute(1, 2, 0).numpy())
    for form in (colour, colour[None], colour.permute(1, 2, 0), colour.numpy(), colour / 255):
        assert np.array_equal(result.model.pixels(form), wanted)
    half = (colour / 255).to(torch.bfloat16)  # numpy has no such type
    assert np.abs(result.model.pixels(half).astype(int) - wanted.astype(int)).max() <= 1
    with pytest.raises(DataError, match="before they are normalised"):
        result.model.pixels((colour / 255 - 0.5) / 0.25)  # normalised already


def test_a_table_of_the_tested_images(result) -> None:
    """A row per image, whose means are the scores of the result."""
    rows = result.table()
    data = few_glyphs().of_split("test")
    assert len(rows) == len(data) == result.values["samples"]
    assert [row["label"] for row in rows] == [data.taxonomy.ids[node] for node in data.labels]
    for name in ("hr", "hp", "hf"):
        assert np.mean([row[name] for row in rows]) == pytest.approx(result.values[name])
    for row, found in zip(rows[:5], result.predict(data.images[:5]), strict=True):
        assert (row["predicted"], row["predicted_name"]) == (found.id, found.name)
        assert row["probability"] == pytest.approx(found.probability)
    sure = result.table("threshold", 0.3)
    assert min(row["probability"] for row in sure) >= 0.3


def test_pandas_takes_all_tables_as_they_are(result) -> None:
    """With types that it can calculate with, not objects."""
    import pandas

    frame = pandas.DataFrame(result.table())
    assert frame.shape == (result.values["samples"], 9) and not frame.isna().any(axis=None)
    numbers = ["image", "probability", "hr", "hp", "hf"]
    assert list(frame.select_dtypes("number").columns) == numbers
    assert frame["hf"].mean() == pytest.approx(result.values["hf"])
    by_class = pandas.DataFrame(result.class_scores()).set_index("id")
    means = frame.groupby("label")["hf"].mean()
    assert means.to_dict() == pytest.approx(by_class.loc[means.index, "hf"].to_dict())
    assert by_class["images"].to_dict() == frame["label"].value_counts().to_dict()

    history = pandas.DataFrame(result.history())
    first = history[history["stage"] == history["stage"].iloc[0]]  # FedBDFT has another
    assert first["round"].tolist() == [1, 2]
    assert history["validation_hf"].dtype == float and history["validation_hf"].max() <= 1
    images = few_glyphs().images[:3]
    chances = pandas.DataFrame(result.model.probabilities(images))
    assert chances.shape == (3, len(result.model.taxonomy))
    assert chances.iloc[:, 0].tolist() == pytest.approx([1, 1, 1])  # the root
    found = pandas.DataFrame(result.predict(images))
    assert found["names"].str[-1].tolist() == [row.name for row in result.predict(images)]


def test_images_of_any_size_and_kind(result, tmp_path) -> None:
    grey = np.random.default_rng(0).integers(0, 256, (40, 60), dtype=np.uint8)
    images = result.model.pixels([grey, grey[..., None], grey > 99, Image.fromarray(grey)])
    assert images.shape == (4, 32, 32, 3)
    assert np.array_equal(images[0], images[1]) and np.array_equal(images[0], images[3])
    Image.fromarray(grey).save(tmp_path / "grey.png")
    assert np.array_equal(result.model.pixels([tmp_path / "grey.png"])[0], images[0])
    colour = few_glyphs().images[:2, ::2, ::2]
    assert result.model.pixels(colour).shape == (2, 32, 32, 3)
    lonely = as_pixels([grey, colour[0]], (16, 16, 1))
    assert lonely.shape == (2, 16, 16, 1)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (np.full((5, 5), 200.0), "fractions up to 200; divide by 255"),
        (np.full((5, 5), -1), "whole numbers from -1 to -1"),
        (np.full((5, 5), np.nan), "fractions up to nan"),
        (np.zeros((5, 5, 7), np.uint8), "the channels, 1 to 4, come last"),
        (np.zeros(5), "an array with 1 dimensions"),
        (np.zeros((0, 5), np.uint8), "is not an image"),
        ([np.zeros((4, 4)), {"a": 1}], "image number 1: a dict is not a path"),
        (7, "images must be paths, PIL images or arrays, not 7"),
    ],
)
def test_what_is_no_image_is_told(images, words) -> None:
    with pytest.raises(DataError, match=words):
        as_pixels(images, (32, 32, 3))


def test_a_table_of_probabilities_with_names(result) -> None:
    images = few_glyphs().images[:5]
    table = result.model.probabilities(images)
    tree = result.model.taxonomy
    assert list(table) == list(tree.names) and all(len(column) == 5 for column in table.values())
    np.testing.assert_allclose(table[tree.names[0]], 1.0, atol=1e-5)
    for number, found in enumerate(result.predict(images)):
        assert [float(table[name][number]) for name in found.names] == list(found.probabilities)
    same = Taxonomy(tree.ids, tree.parents, ("kite",) * len(tree))
    columns = replace(result.model, taxonomy=same).probabilities(images)
    assert list(columns)[:1] == [f"kite ({tree.ids[0]})"] and len(columns) == len(tree)


def test_the_history_and_the_scores_of_classes(result, small) -> None:
    history = result.history()
    assert [line["round"] for line in history][:2] == [1, 2]
    assert history == RunFolder(result.folder).metrics_lines()
    rows = result.class_scores()
    images = sum(row["images"] for row in rows)
    assert images == result.values["samples"]
    for name in ("hf", "hr", "hp", "accuracy"):
        mean = sum(row[name] * row["images"] for row in rows) / images
        assert mean == pytest.approx(result.values[name], abs=1e-9)
    assert {row["name"] for row in rows} <= set(result.model.full_taxonomy.names)


def test_a_run_without_a_folder_has_a_history(small) -> None:
    found = fedgrain.run(small(rounds=2, head="flat-softmax"))
    assert [line["round"] for line in found.history()] == [1, 2]


def test_image_files_of_any_size(result, tmp_path) -> None:
    Image.fromarray(few_glyphs().images[0]).save(tmp_path / "same.png")
    Image.fromarray(few_glyphs().images[0]).resize((80, 60)).save(tmp_path / "other.jpg")
    images = result.model.pixels([tmp_path / "same.png", tmp_path / "other.jpg"])
    assert np.array_equal(images[0], few_glyphs().images[0])
    assert images.shape == (2, 32, 32, 3)
    (tmp_path / "broken.png").write_bytes((tmp_path / "same.png").read_bytes()[:200])
    os.mkfifo(tmp_path / "pipe.png")  # opened for reading it would wait for a writer
    (tmp_path / "link.png").symlink_to(tmp_path / "same.png")  # is followed: the user typed it
    assert np.array_equal(result.model.pixels([tmp_path / "link.png"])[0], images[0])
    told = {"broken.png": "not a readable image", "none.png": "no such file"}
    for name, words in {**told, "pipe.png": "a named pipe, not a plain file"}.items():
        with pytest.raises(DataError, match=f"{name}: .*{words}"):
            result.model.pixels([tmp_path / "same.png", tmp_path / name])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.json", "{", "not JSON"),
        ("model.json", "[]", "not a JSON object"),
        ("model.json", "{}", "not a model of this version"),
        ("model.json", '{"format": "fedgrain-model-1"}', "damaged"),
        ("model.json", ("mean", ["a", "b", "c"]), "damaged"),
        ("model.json", ("image_shape", [32]), "damaged"),
        ("best.safetensors", "x", "not a whole safetensors file"),
        ("best.safetensors", None, "there is no such file"),
        ("model.json", None, "no finished run here"),
    ],
)
def test_damaged_folders(result, tmp_path, name, content, words) -> None:
    shutil.copytree(result.folder, tmp_path / "copy")
    place = tmp_path / "copy" / name
    if isinstance(content, tuple):
        content = json.dumps({**json.loads(place.read_text()), content[0]: content[1]})
    place.unlink() if content is None else place.write_text(content)
    with pytest.raises(RunError, match=words) as caught:
        fedgrain.load(tmp_path / "copy", trust_code=True)
    assert str(place.parent) in str(caught.value)


def test_weights_of_another_net_are_refused(result, small, tmp_path) -> None:
    shutil.copytree(result.folder, tmp_path / "copy")
    other = fedgrain.run(small(head="flat-softmax", rounds=1), tmp_path / "other")
    shutil.copy(other.folder / "best.safetensors", tmp_path / "copy")
    with pytest.raises(RunError, match="do not fit the net"):
        fedgrain.load(tmp_path / "copy", trust_code=True)


def test_the_margin_is_a_setting_of_the_run_and_kept_with_the_model(small, tmp_path) -> None:
    plain = fedgrain.run(small(head="softmax-margin", rounds=1), tmp_path / "plain")
    config = small(head="softmax-margin", rounds=1, margin_type="edge-distance", margin_size=0.5)
    other = fedgrain.run(config, tmp_path / "other")
    weights = [(run.folder / "best.safetensors").read_bytes() for run in (plain, other)]
    assert weights[0] != weights[1]
    loaded = fedgrain.load(tmp_path / "other", trust_code=True).head
    assert (loaded.margin_type, loaded.margin_size) == ("edge-distance", 0.5)
    loaded = fedgrain.load(tmp_path / "plain", trust_code=True).head
    assert (loaded.margin_type, loaded.margin_size) == ("incorrect", 5.0)
    about = read_checked_json(plain.folder / "model.json")
    del about["head_settings"]  # as an older version wrote it
    (plain.folder / "model.json").write_text(json.dumps(about))
    assert fedgrain.load(plain.folder, trust_code=True).head.margin_size == 5.0


@pytest.mark.parametrize("shape", [[10**300, 32, 3], [0, 32, 3], [32, 32, True], [32, 32.0, 3]])
def test_a_shape_no_image_can_have_is_one_sentence(shape, result, tmp_path) -> None:
    shutil.copytree(result.folder, tmp_path / "copy")
    file = tmp_path / "copy" / "model.json"
    write_checked_json(file, {**read_checked_json(file), "image_shape": shape})
    words = "three whole numbers from 1 to 4096|a whole number of 301 digits"
    with pytest.raises(RunError, match=words) as refused:
        fedgrain.load(tmp_path / "copy", trust_code=True)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("mean", [0.5, 0.5]),
        ("mean", [float("nan")] * 3),
        ("deviation", [0.25] * 4),
        ("deviation", [0.25, 0.0, 0.25]),
    ],
)
def test_a_forged_model_is_refused_before_its_net_is_built(result, tmp_path, part, value) -> None:
    place = Path(shutil.copytree(result.folder, tmp_path / "copy")) / "model.json"
    write_checked_json(place, {**read_checked_json(place), part: value})  # with a right checksum
    with pytest.raises(RunError, match=f"{place.name}: damaged .*{part}"):
        fedgrain.load(place.parent, trust_code=True)

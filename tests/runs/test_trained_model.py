"""A model is its folder: it predicts on another machine, without the data."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fedgrain
from fedgrain.checked_json import read_checked_json, write_checked_json
from fedgrain.errors import DataError, RunError
from fedgrain.runs.evaluate import evaluate
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


def test_images_of_another_shape_are_refused(result) -> None:
    with pytest.raises(RunError, match=r"takes uint8 images of shape \[32, 32, 3\], not uint8"):
        result.predict(np.zeros((2, 16, 16, 3), np.uint8))
    with pytest.raises(RunError, match="not float32"):
        result.predict(np.zeros((2, 32, 32, 3), np.float32))


def test_image_files_of_any_size(result, tmp_path) -> None:
    Image.fromarray(few_glyphs().images[0]).save(tmp_path / "same.png")
    Image.fromarray(few_glyphs().images[0]).resize((80, 60)).save(tmp_path / "other.jpg")
    images = result.model.read_images([tmp_path / "same.png", tmp_path / "other.jpg"])
    assert np.array_equal(images[0], few_glyphs().images[0])
    assert images.shape == (2, 32, 32, 3)
    (tmp_path / "broken.png").write_bytes((tmp_path / "same.png").read_bytes()[:200])
    os.mkfifo(tmp_path / "pipe.png")  # opened for reading it would wait for a writer
    (tmp_path / "link.png").symlink_to(tmp_path / "same.png")  # is followed: the user typed it
    assert np.array_equal(result.model.read_images([tmp_path / "link.png"])[0], images[0])
    told = {"broken.png": "not a readable image", "none.png": "no such file"}
    for name, words in {**told, "pipe.png": "a named pipe, not a plain file"}.items():
        with pytest.raises(DataError, match=f"{name}: .*{words}"):
            result.model.read_images([tmp_path / "same.png", tmp_path / name])


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

"""docs/export.md as it stands: its commands, then its Python, on a photograph of another size."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

import fedgrain
from doc_pages import ROOT, commands
from fedgrain.cli import main
from fedgrain.exports import HubModel
from fedgrain.images.decode import decode_image
from own_parts import few_glyphs


@pytest.fixture(scope="module")
def place(run_folder, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "runs").mkdir()
    (folder / "runs" / "one").symlink_to(run_folder)
    photo = Image.fromarray(few_glyphs().images[3]).resize((90, 70))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned: it must be put upright
    photo.save(folder / "photo.jpg", exif=exif, quality=95)
    return folder


@pytest.fixture
def exported(place, monkeypatch, capsys) -> Path:
    """The same after the page's command for the hub, which another worker's test may have typed."""
    if not (place / "model-folder" / "README.md").exists():
        monkeypatch.chdir(place)
        (typed,) = [
            w for w in commands("docs/export.md") if w[1] == "export" and "huggingface" in w
        ]
        assert main([*typed[1:], "--trust-code"]) == 0
        capsys.readouterr()
    return place


def test_the_page_works_as_typed(place, monkeypatch, capsys) -> None:
    monkeypatch.chdir(place)
    typed = [words for words in commands("docs/export.md") if words[1] == "export"]
    assert len(typed) == 3
    for words in typed:
        assert main([*words[1:], "--trust-code"]) == 0
    capsys.readouterr()
    found = {}
    page = (ROOT / "docs/export.md").read_text("utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.S):
        exec(compile(block, "docs/export.md", "exec"), found)
    model = fedgrain.load(place / "runs/one", trust_code=True)
    assert np.array_equal(found["pixels"], model.pixels("photo.jpg")[0])  # Pillow's own three lines
    (leaf,), (sure,) = model.predict("photo.jpg"), model.predict("photo.jpg", "threshold", 0.8)
    assert found["names"][found["leaf"]] == leaf.name
    assert found["names"][found["node"]] == sure.name
    assert found["probabilities"][found["leaf"]] == pytest.approx(leaf.probability, abs=1e-4)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "CMYK"])
def test_the_lines_of_the_page_give_our_pixels_of_every_kind_of_image(mode, tmp_path, monkeypatch):
    """Of 8 bits a channel, transparent ones too."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(5)
    drawn = Image.fromarray(random.integers(0, 256, (50, 71, 4), np.uint8), "RGBA")
    kind = "TIFF" if mode == "CMYK" else "PNG"
    transparent = {"transparency": 3} if mode == "P" else {}
    image = drawn.convert("RGB").quantize(16) if mode == "P" else drawn.convert(mode)
    image.save("photo.jpg", kind, **transparent)  # files are told by what is in them
    page = (ROOT / "docs/export.md").read_text("utf-8")
    (lines,) = re.findall(r"\n(image = .*?# lines)\n", page, flags=re.S)
    found = {"np": np, "Image": Image, "ImageOps": ImageOps, "size": (32, 32)}
    exec(lines, {**found, "how": Image.Resampling.BILINEAR}, found)
    assert np.array_equal(found["pixels"], decode_image("photo.jpg", 32))


def test_a_folder_for_the_hub_is_the_same_model(exported, place, monkeypatch, capsys) -> None:
    """After the commands of the page: by load, by from_pretrained, and written again by it."""
    monkeypatch.chdir(place)
    images = few_glyphs().images[:6].copy()
    own = fedgrain.load("runs/one", trust_code=True)
    read = fedgrain.load("model-folder", trust_code=True)
    assert np.array_equal(read.node_log_probs(images), own.node_log_probs(images))
    kinds = {path.suffix for path in Path("model-folder").iterdir()}
    assert kinds == {".json", ".safetensors", ".md"}
    HubModel(own).save_pretrained("again")
    again = HubModel.from_pretrained("again", trust_code=True)
    assert again.predict(images) == own.predict(images)
    assert main(["export", "runs/one", "--format", "huggingface", "--out", "again",
                 "--trust-code"]) == 2  # fmt: skip
    assert "again: exists already; choose a new folder" in capsys.readouterr().err


def test_the_card_says_what_the_hub_and_a_reader_ask(exported, place) -> None:
    import yaml

    text = (place / "model-folder" / "README.md").read_text("utf-8")
    _, front, body = text.split("---\n", 2)
    about = yaml.safe_load(front)
    assert about["license"] == "cc-by-4.0" and about["library_name"] == "fedgrain"
    result = fedgrain.runs.run_folder.RunFolder(place / "runs/one").read_result()
    (entry,) = about["model-index"]
    values = {m["name"]: m["value"] for m in entry["results"][0]["metrics"]}
    assert values["hierarchical F"] == pytest.approx(result["hf"], abs=1e-4)
    for depth, value in enumerate(result["accuracy_per_depth"], start=1):
        assert f"| accuracy at depth {depth} | {value:.4f} |" in body
    assert "4 sites took part" in body and "does not know 50% of the leaf classes" in body
    assert "| client 0 |" in body and "fedgrain.load(" in body

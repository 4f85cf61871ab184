"""From one's own photographs, of any size and kind, to predictions and a report, on a trunk."""

import numpy as np
import pytest
from PIL import Image

import fedgrain
from fedgrain.folders.folder import load_folder
from fedgrain.folders.image_paths import find_images
from fedgrain.images.decode import decode_image
from fedgrain.models.model_folder import load
from fedgrain.models.predict_files import Asked, predict_files
from fedgrain.preparation.prepare import prepare
from fedgrain.report import write_report

SIZES = ((70, 50), (200, 133), (33, 90), (160, 160))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """JPEG and PNG, grey, RGBA, turned by EXIF; of two sites one names classes only roughly."""
    folder = tmp_path_factory.mktemp("photos")
    (folder / "taxonomy.csv").write_text(
        "parent,child\nanimal,bird\nanimal,cat\nbird,kite\nbird,owl\n"
    )
    random, rows = np.random.default_rng(0), ["path,label,client,split"]
    for number in range(60):
        truth = ("kite", "owl", "cat")[number % 3]
        colour = {"kite": 60, "owl": 120, "cat": 200}[truth]
        width, height = SIZES[number % 4]
        pixels = random.integers(colour - 40, colour + 40, (height, width, 3)).astype(np.uint8)
        image, name = Image.fromarray(pixels), f"{number}.jpg" if number % 2 else f"{number}.png"
        image = image.convert("L" if number % 5 == 0 else "RGB")
        if number % 2 == 0 and number % 7 == 0:
            image = image.convert("RGBA")
        exif = Image.Exif()
        exif[0x0112] = 6 if number % 4 == 1 else 1  # turn it by 90 degrees
        image.save(folder / name, exif=exif)
        split = "test" if number >= 45 else "train"
        coarse = number % 2 and truth != "cat" and split == "train"
        client = ("museum", "volunteers")[number % 2]
        rows.append(f"{name},{'bird' if coarse else truth},{client},{split}")
    (folder / "images.csv").write_text("\n".join(rows) + "\n")
    return folder


def test_photographs_to_a_report(photos, on_trunk, tmp_path):
    config = on_trunk(
        dataset="folder", data_root=str(photos), partition="manifest", knowledge="inferred",
        alpha=0.0, head="flat-softmax", join_ratio=1.0, max_children=None, lr=0.05, rounds=3,
        image_size=64,
    )  # fmt: skip
    prepared = prepare(config)
    how = prepared.spec.trunk.preprocessing
    assert how.crop < 1 and prepared.data.size == (how.resized, how.resized) > (64, 64)
    result = fedgrain.run(config, tmp_path / "run")
    assert result.tested_on == "test" and result.values["samples"] == 15
    model = load(tmp_path / "run")
    files = find_images([photos])
    rows = list(predict_files(tmp_path / "run", files, Asked(), workers=1))
    assert len(rows) == 60 and all(row.prediction for row in rows)
    again = model.predict([row.image for row in rows[:5]])
    assert again == [row.prediction for row in rows[:5]]
    page = write_report(tmp_path / "run").read_text()
    assert "No closer look" not in page and "volunteers" in page


def test_photographs_are_resized_in_the_way_of_the_trunk(photos):
    """The cache has an entry for each way, and that of all other runs is as it was."""
    bilinear = load_folder(photos, size=40).images[0]
    bicubic = load_folder(photos, size=40, interpolation="bicubic").images[0]
    assert not np.array_equal(bilinear, bicubic)
    np.testing.assert_array_equal(bilinear, decode_image(photos / "0.png", 40))
    np.testing.assert_array_equal(bicubic, decode_image(photos / "0.png", 40, "bicubic"))

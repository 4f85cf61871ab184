"""Samples that are no text: a data set that Hugging Face saved to disk, and folders in folders."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from import_sample import Damage, Sample


def _save_dataset(folder: Path) -> None:
    """Save a data set as its users do: images inside, class labels by number."""
    import datasets

    def part(labels: list[int]) -> datasets.Dataset:
        images = []
        for label in labels:
            file = io.BytesIO()
            Image.new("RGB", (4, 4), (label * 40, 9, len(images))).save(file, "PNG")
            images.append({"bytes": file.getvalue(), "path": None})
        rows = {"image": images, "label": labels, "site": ["Kiel"] * len(labels)}
        features = datasets.Features({
            "image": datasets.Image(), "site": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["bird/kite", "bird/owl", "cat"]),
        })  # fmt: skip
        return datasets.Dataset.from_dict(rows, features=features)

    datasets.disable_progress_bars()
    both = datasets.DatasetDict({"train": part([0, 1, 1, 2]), "test": part([0])})
    both.save_to_disk(str(folder / "saved"))


def _change(file: str, change: Callable[[bytes], bytes | None]) -> Callable[[Path], None]:
    """Change the content of a file, or remove it."""

    def do(folder: Path) -> None:
        path = folder / file
        before = path.read_bytes()
        after = change(before)
        assert after != before
        path.unlink() if after is None else path.write_bytes(after)

    return do


def _instead(file: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    return _change(file, lambda content: content.replace(old, new, 1))


def _second_image_broken(table: bytes) -> bytes:
    parts = table.split(b"\x89PNG")
    return b"\x89PNG".join(parts[:2]) + b"\x89oh!" + b"\x89PNG".join(parts[2:])


def _of_saved(told: str, do: Callable[[Path], None]) -> Damage:
    return Damage("", "", told, do=do)


_TRAIN = "saved/train"
_ARROW = "data-00000-of-00001.arrow"
_STATE, _ABOUT = f"{_TRAIN}/state.json", f"{_TRAIN}/dataset_info.json"
_SAVED = (
    _of_saved(r"saved/train/state\.json, line \d+: not JSON", _change(_STATE, lambda c: c[:60])),
    _of_saved(r"saved/train/state\.json: '_data_files' is missing where a list",
              _instead(_STATE, b"_data_files", b"_files")),
    _of_saved(r"state\.json, file 1: '\.\./x\.arrow' is not a file beside it",
              _instead(_STATE, _ARROW.encode(), b"../x.arrow")),
    _of_saved(rf"state\.json, file 1: '{_ARROW}' is not a file beside it",
              _change(f"{_TRAIN}/{_ARROW}", lambda c: None)),
    _of_saved(rf"train/{_ARROW}, batch 1: not a table of Arrow", _change(f"{_TRAIN}/{_ARROW}",
                                                                lambda c: b"")),
    _of_saved(rf"train/{_ARROW}, batch 1: not a table of Arrow", _change(f"{_TRAIN}/{_ARROW}",
                                                                lambda c: c[: len(c) // 2])),
    _of_saved("saved, train, row 2: its image is not one that fedgrain reads",
              _change(f"{_TRAIN}/{_ARROW}", _second_image_broken)),
    _of_saved("saved/train: no state.json or no dataset_info.json",
              _change(_ABOUT, lambda c: None)),
    _of_saved(r"train/dataset_info\.json, line \d+: not JSON", _instead(_ABOUT, b"},", b"")),
    _of_saved("saved, train, row 4: class label 2, and there are 2 names",
              _instead(_ABOUT, b',\n        "cat"', b"")),
    _of_saved("saved/train: not a data set that we read: TypeError: Couldn.t cast",
              _instead(_ABOUT, b'"_type": "Image"', b'"dtype": "string", "_type": "Value"')),
    _of_saved(r"dataset_dict\.json, split 1: 'trian' is not a folder beside it",
              _instead("saved/dataset_dict.json", b"train", b"trian")),
    _of_saved(r"dataset_dict\.json: 'splits' is missing where a list",
              _instead("saved/dataset_dict.json", b"splits", b"s")),
)  # fmt: skip


def _no_images(folder: Path) -> None:
    shutil.rmtree(folder / "photos")
    (folder / "photos").mkdir()
    (folder / "photos/readme.txt").write_text("hello")


def _a_file(folder: Path) -> None:
    shutil.rmtree(folder / "photos")
    (folder / "photos").write_text("hello")


def _too_deep(folder: Path) -> None:
    place = folder / "photos" / "/".join("a" * 600)
    place.mkdir(parents=True)
    (place / "1.png").touch()


def _links(folder: Path) -> None:
    (folder / "photos").rename(folder / "elsewhere")
    (folder / "photos").mkdir()
    for number, path in enumerate(sorted((folder / "elsewhere").rglob("*.png"))):
        (folder / "photos" / f"{number}.png").symlink_to(path)


_FOLDERS = (
    Damage("", "", "photos: a file where a folder of images is wanted", do=_a_file),
    Damage("", "", "photos: found neither classes nor images", do=_no_images),
    Damage("", "", r"photos(/a){501,}: .*levels deep, but only 500", do=_too_deep),
    Damage("", "", r"photos: no image is left of 4: its image is a link out of the folder", "",
           _links),
)  # fmt: skip
FOLDERS = (
    Sample(
        "saved dataset", "hf-dataset", {}, ("saved",), {"kite": 2, "owl": 2, "cat": 1}, 5, (),
        {"test/000000.png": ("Kiel", "", "test")}, make=_save_dataset, kinds=("json", "bytes"),
        mutated=(_STATE, _ABOUT, f"{_TRAIN}/{_ARROW}", "saved/dataset_dict.json"), damages=_SAVED,
    ),
    Sample(
        "folders", "folders", {"photos/readme.txt": "hello"}, ("photos",),
        {"root": 1, "animal": 1, "cat": 2, "stone": 1}, 4,
        ("photos/0.png", "photos/animal/1.png", "photos/animal/cat/2.png",
         "photos/animal/cat/deep.JPG", "photos/stone/4.png"), kinds=("bytes", "lines"),
        damages=_FOLDERS,
    ),
)  # fmt: skip

import tarfile

import numpy as np
import pytest

from fedgrain.data import load_dataset
from fedgrain.data.tiny_imagenet import list_tiny_imagenet
from fedgrain.errors import DataError
from fedgrain.taxonomy import class_list

WNIDS = class_list("tiny-imagenet").wnids


def test_the_real_sample(load_real):
    data = load_real("tiny-imagenet")
    assert data.split_counts == {"train": 20_000, "test": 10_000}
    assert (data.size, data.channels, len(data.taxonomy.leaves)) == ((64, 64), 3, 200)
    for split, count in (("train", 100), ("test", 50)):
        labels = data.labels[data.split_indices(split)]
        assert np.unique(labels, return_counts=True)[1].tolist() == [count] * 200
    some = data.images[::3].astype(np.int16)
    grey = (some == some[..., :1]).all(axis=(1, 2, 3)).mean()
    assert 0.01 < grey < 0.03  # 2% of the JPEGs are greyscale
    pixels = data.images[::20].reshape(-1, 3) / 255
    assert data.normalisation.mean == pytest.approx(tuple(pixels.mean(axis=0)), abs=0.01)
    assert data.normalisation.deviation == pytest.approx(tuple(pixels.std(axis=0)), abs=0.01)
    assert isinstance(data.images, np.memmap) and data.unreadable == ()


@pytest.fixture
def official(tmp_path, write_image):
    """The official layout with one training image a class and three validation images."""
    folder = tmp_path / "data" / "tiny-imagenet-200"
    for number, wnid in enumerate(WNIDS):
        write_image(folder / "train" / wnid / "images" / f"{wnid}_0.JPEG", (number, 0, 0))
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text("")
    lines = []
    for number in range(3):
        write_image(folder / "val" / "images" / f"val_{number}.JPEG")
        lines.append(f"val_{number}.JPEG\t{WNIDS[number * 7]}\t0\t0\t9\t9\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    return folder


def test_folder_and_archive_give_the_same(official, cache, tmp_path, monkeypatch):
    from_folder = load_dataset("tiny-imagenet", root=official.parent, size=8)
    itself = load_dataset("tiny-imagenet", root=official, size=8)
    (tmp_path / "archives").mkdir()
    with tarfile.open(tmp_path / "archives" / "tiny-imagenet-200-part.tar.gz", "w:gz") as tar:
        tar.add(official, "tiny-imagenet-200")
    monkeypatch.setenv("FEDGRAIN_DATA", str(tmp_path / "archives"))
    from_archive = load_dataset("tiny-imagenet", size=8)
    for data in (itself, from_archive):
        np.testing.assert_array_equal(data.images, from_folder.images)
        np.testing.assert_array_equal(data.labels, from_folder.labels)
    ids = [from_folder.taxonomy.ids[label] for label in from_folder.labels]
    assert ids == [*WNIDS, *(WNIDS[number * 7] for number in range(3))]
    assert from_folder.split_counts == {"train": 200, "test": 3}


def test_a_new_file_is_noticed(official, cache, write_image):
    assert len(load_dataset("tiny-imagenet", root=official, size=8)) == 203
    write_image(official / "train" / WNIDS[0] / "images" / "new.JPEG")
    assert len(load_dataset("tiny-imagenet", root=official, size=8)) == 204


def test_a_strange_annotation_is_named_with_its_line(official):
    annotations = official / "val" / "val_annotations.txt"
    for bad in ("val_9.JPEG\tn99999999\t0", "nothing", f"../../x\t{WNIDS[0]}"):
        annotations.write_text(f"val_0.JPEG\t{WNIDS[0]}\t0\n{bad}\n")
        with pytest.raises(DataError, match=r"val_annotations\.txt, line 2: "):
            list_tiny_imagenet(official)


def test_a_missing_class_is_named(official):
    (official / "train" / WNIDS[5] / "images" / f"{WNIDS[5]}_0.JPEG").unlink()
    with pytest.raises(DataError, match=f"no training images of class {WNIDS[5]}"):
        list_tiny_imagenet(official)

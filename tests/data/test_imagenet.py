import os
from pathlib import Path

import numpy as np
import pytest

from fedgrain.data import load_dataset
from fedgrain.data.imagenet import LAYOUT, list_imagenet
from fedgrain.errors import DataError
from fedgrain.taxonomy import class_list

WNIDS = class_list("imagenet").wnids


def test_the_real_sample(real_data):
    with pytest.warns(UserWarning, match=r"1000 of 1000 classes .* than 500 .*\(at least 1\)"):
        data = load_dataset("imagenet", size=64)
    assert data.split_counts == {"train": 1_000, "test": 5_000}
    assert (data.size, data.channels, len(data.taxonomy.leaves)) == ((64, 64), 3, 1000)
    for split, count in (("train", 1), ("test", 5)):
        labels = data.labels[data.split_indices(split)]
        assert np.unique(labels, return_counts=True)[1].tolist() == [count] * 1000
    assert isinstance(data.images, np.memmap)


@pytest.fixture
def five_a_class(tmp_path, load_real) -> Path:
    """A data set with five training images a class: the sample's validation images."""
    load_real("imagenet", size=64)
    cache = Path(os.environ["FEDGRAIN_CACHE"])
    folder = next(p for p in sorted((cache / "unpacked").glob("*/*")) if LAYOUT.recognises(p))
    for name in ("train", "val"):
        (tmp_path / name).symlink_to(folder / "val")
    return tmp_path


def test_the_sample_is_stratified_and_seeded(five_a_class):
    first = list_imagenet(five_a_class, 3, 42)
    assert np.bincount(first.labels[first.splits == 0]).tolist() == [3] * 1000
    assert np.bincount(first.labels[first.splits == 1]).tolist() == [5] * 1000
    assert len(set(first.paths)) == 8000 and first.warnings == []
    assert all(Path(path).parent.name == WNIDS[label]
               for path, label in zip(first.paths, first.labels, strict=True))  # fmt: skip
    assert list_imagenet(five_a_class, 3, 42).paths == first.paths
    other = list_imagenet(five_a_class, 3, 46)
    shared = len(set(first.paths[:3000]) & set(other.paths[:3000]))
    assert 1700 < shared < 1900  # 3000 * 3/5, were they drawn independently


def test_a_missing_class_is_named(five_a_class):
    (five_a_class / "val").unlink()
    for wnid in WNIDS[:2]:
        (five_a_class / "val" / wnid).mkdir(parents=True)
    with pytest.raises(DataError, match=rf"val/{WNIDS[0]}: no images of this class"):
        list_imagenet(five_a_class, 5, 42)


def test_what_cannot_be_downloaded_says_where_to_put_it(cache):
    with pytest.raises(DataError, match=r"put ImageNet's folders train/<wnid>") as error:
        load_dataset("imagenet")
    assert "data get" not in str(error.value)


def test_an_impossible_sample_is_refused(cache):
    with pytest.raises(DataError, match="at least 1, not 0"):
        load_dataset("imagenet", per_class=0)

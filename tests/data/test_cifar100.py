import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from fedgrain.data.cifar100 import LAYOUT, load_cifar100, read_pickle
from fedgrain.errors import DataError
from fedgrain.taxonomy import class_list


def test_the_real_thing(load_real):
    data = load_real("cifar100")
    assert data.split_counts == {"train": 50_000, "test": 10_000}
    assert (data.size, data.channels, len(data.taxonomy.leaves)) == ((32, 32), 3, 100)
    for split, count in (("train", 500), ("test", 100)):
        labels = data.labels[data.split_indices(split)]
        assert np.unique(labels, return_counts=True)[1].tolist() == [count] * 100
        assert set(labels) == set(data.taxonomy.leaves)
    train = data.of_split("train")
    mean = train.images.sum(axis=0, dtype=np.uint32).mean(axis=(0, 1)) / len(train) / 255
    assert mean.round(3).tolist() == [0.507, 0.487, 0.441]
    assert train.normalisation.mean == pytest.approx(tuple(mean), abs=1e-4)
    squares = np.square(train.images, dtype=np.uint16).sum(axis=0, dtype=np.uint32)
    deviation = np.sqrt(squares.mean(axis=(0, 1)) / len(train) / 255**2 - mean**2)
    assert train.normalisation.deviation == pytest.approx(tuple(deviation), abs=2e-4)
    assert isinstance(data.images, np.memmap)


def test_labels_and_pixels_are_those_of_the_files(load_real, real_data):
    """The archive's own files, read the way its authors describe, agree image by image."""
    data = load_real("cifar100")
    cache = Path(os.environ["FEDGRAIN_CACHE"])
    folder = next(p for p in sorted((cache / "unpacked").glob("*/*")) if LAYOUT.recognises(p))
    content = read_pickle(folder / "test")
    wnids = class_list("cifar100").wnids
    test = data.of_split("test")
    for number in (0, 17, 9_999):
        assert data.taxonomy.ids[test.labels[number]] == wnids[content[b"fine_labels"][number]]
        red, green, blue = content[b"data"][number].reshape(3, 32, 32)
        np.testing.assert_array_equal(test.images[number], np.dstack([red, green, blue]))
    unpacked = load_real("cifar100", root=folder)
    np.testing.assert_array_equal(unpacked.labels, data.labels)
    np.testing.assert_array_equal(unpacked.images[::1000], data.images[::1000])


class Evil:
    """What a forged pickle does: call anything at all while it is read."""

    def __init__(self, call, *arguments):
        self.reduced = call, arguments

    def __reduce__(self):
        return self.reduced


def forged(folder: Path, content: object) -> Path:
    folder.mkdir(exist_ok=True)
    for name in ("train", "test", "meta"):
        (folder / name).write_bytes(pickle.dumps(content, protocol=3))
    return folder


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_is_refused_and_runs_nothing(tmp_path, cache, check, protocol):
    mark = tmp_path / "it-ran"
    folder = forged(tmp_path / "cifar-100-python", {})
    evil = {"data": Evil(os.system, f"touch {mark}"), "fine_labels": []}
    for name in ("train", "meta"):
        (folder / name).write_bytes(pickle.dumps(evil, protocol=protocol))
    message = "is not the official" if check else r"asks for posix\.system, which no CIFAR"
    with pytest.raises(DataError, match=message) as error:
        load_cifar100(tmp_path, check=check)
    assert str(folder) in str(error.value)
    assert not mark.exists()
    pickle.loads(pickle.dumps(evil, protocol=protocol))  # the same file does run without our reader
    assert mark.exists()


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (eval, ("1",)),
        (getattr, ("x", "upper")),
        (np.load, ("x",)),
        (np.array, ([1],)),  # no numpy function but the three that arrays need
        (Path, ("x",)),
    ],
)
def test_only_what_arrays_need_is_admitted(tmp_path, call, arguments):
    path = tmp_path / "train"
    path.write_bytes(pickle.dumps(Evil(call, *arguments)))
    with pytest.raises(DataError, match=r"train: asks for .*; do not use this file"):
        read_pickle(path)


def test_plain_values_and_arrays_are_read(tmp_path):
    content = {b"data": np.arange(6, dtype=np.uint8).reshape(2, 3), b"names": [b"a", "b", 1]}
    pickled = pickle.dumps(content, protocol=3)
    old = pickled.replace(b"numpy._core", b"numpy.core")  # as in the official files
    assert old != pickled
    for number, raw in enumerate((pickled, old)):
        (tmp_path / f"{number}").write_bytes(raw)
        found = read_pickle(tmp_path / f"{number}")
        assert found[b"names"] == [b"a", "b", 1]
        np.testing.assert_array_equal(found[b"data"], content[b"data"])


@pytest.mark.parametrize("content", [b"", b"not a pickle", b"\x80\x02]q\x00.", b"\x80\x02cnumpy"])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "train").write_bytes(content)
    with pytest.raises(DataError, match="train: "):
        read_pickle(tmp_path / "train")


def test_other_class_names_are_refused(tmp_path, cache):
    forged(tmp_path / "cifar-100-python", {b"fine_label_names": [b"x"] * 100})
    with pytest.raises(DataError, match="meta: the class names are not those of CIFAR-100"):
        load_cifar100(tmp_path, check=False)


def test_other_arrays_are_refused(tmp_path, cache):
    classes = class_list("cifar100")
    names = [classes.names[wnid].replace(" ", "_").encode() for wnid in classes.wnids]
    folder = forged(tmp_path / "cifar-100-python", {b"fine_label_names": names})
    (folder / "train").write_bytes(pickle.dumps({b"data": b"", b"fine_labels": [0]}))
    with pytest.raises(DataError, match="train: does not hold 50000 images"):
        load_cifar100(tmp_path, check=False)
    assert not [path for path in (cache / "arrays").iterdir() if path.is_dir()]


def test_where_to_put_it_is_said_in_one_sentence(cache, tmp_path, monkeypatch):
    with pytest.raises(DataError) as error:
        load_cifar100()
    text = str(error.value)
    assert str(cache) in text and "fedgrain data get cifar100" in text
    assert "put cifar-100-python.tar.gz there" in text and text.count(". ") == 0
    monkeypatch.setenv("FEDGRAIN_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match="elsewhere or "):
        load_cifar100()

"""CIFAR-100 from its official pickles, read so that a forged file cannot run code."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.data.benchmark import benchmark_images
from fedgrain.errors import DataError
from fedgrain.images.cache import folder_of, identity, load_or_build
from fedgrain.images.images import LabelledImages, Normalisation
from fedgrain.images.places import Layout, require_source
from fedgrain.taxonomy.classes import class_list

_MEMBERS = {  # official md5 sums of the files, independent of the archive
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}
NORMALISATION = Normalisation((0.5071, 0.4866, 0.4409), (0.2673, 0.2564, 0.2762))
_COUNTS = {"train": 50_000, "test": 10_000}
LAYOUT = Layout(
    dataset="cifar100",
    folders=("cifar-100-python",),
    archives=("cifar-100-python",),
    recognises=lambda folder: all((folder / name).is_file() for name in _MEMBERS),
    official="cifar-100-python.tar.gz",
    site="https://www.cs.toronto.edu/~kriz",
    md5="eb9058c3a382ffc7106e4002c42a8d85",
)


def load_cifar100(root: str | Path | None = None, *, check: bool = True) -> LabelledImages:
    """Load CIFAR-100: 50,000 training and 10,000 test images of 32x32, labels at the leaves.

    ``check=False`` skips the md5 sums (for a derived copy); the files are still read safely.
    """
    source = require_source(LAYOUT, root)
    files = [source / name for name in _MEMBERS] if source.is_dir() else [source]
    key = {"dataset": "cifar100", "source": identity(*files), "check": check}
    stored = load_or_build(key, lambda folder: _build(folder, source, check))
    return benchmark_images("cifar100", stored, NORMALISATION)


def _build(target: Path, source: Path, check: bool) -> dict[str, Any]:
    folder = folder_of(source, LAYOUT)
    if check:
        for name, md5 in _MEMBERS.items():
            _check_md5(folder / name, md5)
    _check_class_order(folder / "meta")
    parts = [_read_split(folder / name, count) for name, count in _COUNTS.items()]
    pixels = np.concatenate([part[0] for part in parts])  # [images, channels * height * width]
    images = np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    np.save(target / "images.npy", images)
    np.save(target / "labels.npy", np.concatenate([part[1] for part in parts]))
    np.save(target / "splits.npy", np.repeat(np.array([0, 1], np.int8), list(_COUNTS.values())))
    return {"source": str(source)}


def _check_md5(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    if found != expected:
        raise DataError(
            f"{path}: md5 {found} is not the official {expected}; get CIFAR-100 again "
            "(fedgrain data get cifar100)"
        )


def _read_split(path: Path, count: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    content = read_pickle(path)
    data, labels = content.get(b"data"), content.get(b"fine_labels")
    fits = (
        isinstance(data, np.ndarray)
        and data.dtype == np.uint8
        and data.shape == (count, 3072)
        and isinstance(labels, list)
        and len(labels) == count
        and all(type(label) is int and 0 <= label < 100 for label in labels)
    )
    if not fits or not isinstance(data, np.ndarray):
        raise DataError(f"{path}: does not hold {count} images of 3072 bytes and their labels 0-99")
    return data, np.array(labels, dtype=np.int32)


def _check_class_order(path: Path) -> None:
    """Check the order of classes: the mapping to WordNet depends on it."""
    names = read_pickle(path).get(b"fine_label_names")
    classes = class_list("cifar100")
    expected = [classes.names[wnid].replace(" ", "_").encode() for wnid in classes.wnids]
    if names != expected:
        raise DataError(f"{path}: the class names are not those of CIFAR-100 in official order")


class _ArraysOnly(pickle.Unpickler):
    """Allows only the three globals that a pickled array of bytes needs."""

    ADMITTED = {  # noqa: RUF012 - a constant
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ADMITTED:
            raise DataError(f"asks for {module}.{name}, which no CIFAR-100 file needs")
        return self.ADMITTED[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise DataError("asks for an outside object, which no CIFAR-100 file needs")


def read_pickle(path: Path) -> dict[bytes, object]:
    """Read a CIFAR pickle; anything but plain values and arrays is refused unread."""
    try:
        content = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except DataError as error:
        raise DataError(f"{path}: {error}; do not use this file") from None
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(f"{path}: not a readable pickle ({error}); get CIFAR-100 again") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds {type(content).__name__} instead of a dictionary")
    return content

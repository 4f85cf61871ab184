"""TinyImageNet-200 from its official layout; greyscale JPEGs become RGB."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedgrain.data.benchmark import benchmark_images
from fedgrain.errors import DataError
from fedgrain.files import read_text
from fedgrain.images.cache import folder_of, source_identity
from fedgrain.images.decode import MAX_UNREADABLE, Decoding, Listing, load_or_decode
from fedgrain.images.images import LabelledImages, Normalisation
from fedgrain.images.places import Layout, require_source
from fedgrain.taxonomy.classes import class_list

_ANNOTATIONS = "val/val_annotations.txt"
NORMALISATION = Normalisation((0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821))
LAYOUT = Layout(
    dataset="tiny-imagenet",
    folders=("tiny-imagenet-200",),
    archives=("tiny-imagenet-200",),
    recognises=lambda folder: (folder / _ANNOTATIONS).is_file() and (folder / "train").is_dir(),
    official="tiny-imagenet-200.zip",
    site="http://cs231n.stanford.edu",
    md5="90528d7ca1a48142e341f4ef8d21d0de",
)


def load_tiny_imagenet(
    root: str | Path | None = None,
    *,
    size: int = 64,
    max_unreadable: float = MAX_UNREADABLE,
    workers: int | None = None,
    progress: bool | None = None,
) -> LabelledImages:
    """Load TinyImageNet: 200 classes, 500 training images each; labels at the leaves.

    The official validation set is the split ``test`` (method, section 10): the official test set
    has no labels.
    """
    source = require_source(LAYOUT, root)
    key = {"dataset": "tiny-imagenet", "source": _identity(source)}
    stored = load_or_decode(
        key,
        lambda: list_tiny_imagenet(folder_of(source, LAYOUT)),
        Decoding(size, max_unreadable, workers, progress),
    )
    return benchmark_images("tiny-imagenet", stored, NORMALISATION)


def _identity(source: Path) -> str:
    folders = [source / "train" / wnid / "images" for wnid in class_list("tiny-imagenet").wnids]
    return source_identity(source, folders, source / _ANNOTATIONS, source / "val" / "images")


def list_tiny_imagenet(folder: Path) -> Listing:
    """List the files: training images class by class, then the official validation images."""
    paths: list[str] = []
    labels: list[int] = []
    number_of = {wnid: number for number, wnid in enumerate(class_list("tiny-imagenet").wnids)}
    for wnid, number in number_of.items():
        images = folder / "train" / wnid / "images"
        files = sorted(str(path) for path in images.iterdir()) if images.is_dir() else []
        if not files:
            raise DataError(f"{images}: no training images of class {wnid}; get the archive again")
        paths += files
        labels += [number] * len(files)
    training = len(paths)
    for line, text in enumerate(read_text(folder / _ANNOTATIONS).splitlines(), start=1):
        name, wnid = (*text.split("\t"), "", "")[:2]
        if wnid not in number_of or Path(name).name != name:
            raise DataError(
                f"{folder / _ANNOTATIONS}, line {line}: {text!r} is not a file name and one of the "
                "200 classes; get the archive again"
            )
        paths.append(str(folder / "val" / "images" / name))
        labels.append(number_of[wnid])
    splits = np.repeat(np.array([0, 1], np.int8), [training, len(paths) - training])
    return Listing(paths, np.array(labels, np.int32), splits)

"""ImageNet-1k from the usual folders, at a chosen size and with a sample of every class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedgrain.data.benchmark import benchmark_images
from fedgrain.errors import DataError
from fedgrain.images.cache import folder_of, source_identity
from fedgrain.images.decode import MAX_UNREADABLE, Decoding, Listing, load_or_decode
from fedgrain.images.images import LabelledImages, Normalisation
from fedgrain.images.places import Layout, require_source
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy.classes import class_list

SPLITS = {"train": "train", "test": "val"}  # the official validation set is the test set
ENDINGS = (".jpeg", ".jpg", ".png", ".webp", ".bmp")
NORMALISATION = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def _recognises(folder: Path) -> bool:
    first = class_list("imagenet").wnids[0]
    return all((folder / name / first).is_dir() for name in SPLITS.values())


LAYOUT = Layout(
    dataset="imagenet",
    folders=("imagenet", "imagenet-1k", "ILSVRC2012", "imagenet-1k-64"),
    archives=("imagenet", "ILSVRC2012"),
    recognises=_recognises,
    official="ImageNet's folders train/<wnid> and val/<wnid> (image-net.org; it needs an account)",
)


def load_imagenet(
    root: str | Path | None = None,
    *,
    size: int = 224,
    per_class: int = 500,
    seed: int = 42,
    max_unreadable: float = MAX_UNREADABLE,
    workers: int | None = None,
    progress: bool | None = None,
    interpolation: str = "bilinear",
) -> LabelledImages:
    """Load ImageNet: ``per_class`` training images of every class, drawn by ``seed``.

    A class with fewer gives all it has, with a warning. The official validation set is the split
    ``test``, whole. The method's sample seeds are 42 (search) and 46 (training).
    """
    if per_class < 1:
        raise DataError(f"per_class must be at least 1, not {per_class}")
    source = require_source(LAYOUT, root)
    key: dict[str, Any] = {"dataset": "imagenet", "source": _identity(source)}
    stored = load_or_decode(
        {**key, "per_class": per_class, "seed": seed},
        lambda: list_imagenet(folder_of(source, LAYOUT), per_class, seed),
        Decoding(size, max_unreadable, workers, progress, interpolation),
    )
    return benchmark_images("imagenet", stored, NORMALISATION)


def _identity(source: Path) -> str:
    folders = [source / name / wnid for name in SPLITS.values() for wnid in _wnids()]
    return source_identity(source, folders)


def _wnids() -> tuple[str, ...]:
    return class_list("imagenet").wnids


def list_imagenet(folder: Path, per_class: int, seed: int) -> Listing:
    """List the files: the sample of every class, then the validation images."""
    paths: list[str] = []
    labels: list[int] = []
    short: list[int] = []
    for split, name in SPLITS.items():
        for number, wnid in enumerate(_wnids()):
            files = _images_in(folder / name / wnid)
            if split == "train":
                if len(files) < per_class:
                    short.append(len(files))
                chosen = numpy_generator(seed, "imagenet sample", number).permutation(len(files))
                files = [files[i] for i in np.sort(chosen[:per_class])]
            paths += files
            labels += [number] * len(files)
        if split == "train":
            training = len(paths)
    warnings = []
    if short:
        warnings.append(
            f"imagenet: {len(short)} of {len(_wnids())} classes have fewer than {per_class} "
            f"training images (at least {min(short)}); all of theirs are used"
        )
    splits = np.repeat(np.array([0, 1], np.int8), [training, len(paths) - training])
    return Listing(paths, np.array(labels, np.int32), splits, warnings)


def _images_in(folder: Path) -> list[str]:
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    files = [str(path) for path in found if path.name.lower().endswith(ENDINGS)]
    if not files:
        raise DataError(
            f"{folder}: no images of this class; ImageNet needs train/<wnid> and val/<wnid> "
            "for all 1000 classes"
        )
    return files

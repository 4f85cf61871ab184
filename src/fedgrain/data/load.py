"""``load_dataset``: a data set by name, or by ``module:callable`` of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fedgrain.data import cifar100, imagenet, tiny_imagenet
from fedgrain.data.cifar100 import load_cifar100
from fedgrain.data.folder import load_folder
from fedgrain.data.glyphs import load_glyphs
from fedgrain.data.imagenet import load_imagenet
from fedgrain.data.images import LabelledImages
from fedgrain.data.places import Layout
from fedgrain.data.tiny_imagenet import load_tiny_imagenet
from fedgrain.errors import DataError
from fedgrain.plugins import load_callable, told_of

LOADERS: dict[str, Callable[..., LabelledImages]] = {
    "glyphs": load_glyphs,
    "cifar100": load_cifar100,
    "tiny-imagenet": load_tiny_imagenet,
    "imagenet": load_imagenet,
    "folder": load_folder,
}
LAYOUTS: dict[str, Layout] = {
    layout.dataset: layout for layout in (cifar100.LAYOUT, tiny_imagenet.LAYOUT, imagenet.LAYOUT)
}


def load_dataset(name: str, *, root: str | Path | None = None, **options: Any) -> LabelledImages:
    """Load a data set; ``options`` are those of its own loader (``load_glyphs`` and so on).

    ``root`` is where its files lie; without it ``FEDGRAIN_DATA`` and the cache directory are
    searched. A name ``module:callable`` calls a function of the user's that returns
    ``LabelledImages``, with ``root`` (where given) and the options.
    """
    loader = load_callable(name, "data set", DataError) if ":" in name else LOADERS.get(name)
    if loader is None:
        raise DataError(
            f"there is no data set {name!r}; choose one of {', '.join(LOADERS)}, "
            "or give a function of yours as module:callable"
        )
    given = options if root is None else {"root": root, **options}
    try:
        inspect.signature(loader).bind(**given)
    except TypeError as error:
        accepted = ", ".join(inspect.signature(loader).parameters) or "none"
        raise DataError(f"{name}: {error}; its options are: {accepted}") from None
    with told_of(name, "data set", DataError) if ":" in name else nullcontext():
        data = loader(**given)
    if not isinstance(data, LabelledImages):
        raise DataError(f"{name} returned {type(data).__name__} instead of LabelledImages")
    return data

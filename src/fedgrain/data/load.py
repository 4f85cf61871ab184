"""``load_dataset``: a data set by name, or by ``module:callable`` of the user's."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fedgrain.catalogue import DATASETS
from fedgrain.errors import DataError
from fedgrain.images.images import LabelledImages
from fedgrain.images.places import Layout
from fedgrain.plugins import explained_errors, load_callable, load_named


def layouts() -> dict[str, Layout]:
    """Return how each data set is recognised on disk."""
    return {
        name: load_named(entry.layout, "layout", DataError)
        for name, entry in DATASETS.items()
        if entry.layout is not None
    }


def load_dataset(name: str, *, root: str | Path | None = None, **options: Any) -> LabelledImages:
    """Load a data set; ``options`` are those of its own loader (``load_glyphs`` and so on).

    ``root`` is where its files are; without it ``FEDGRAIN_DATA`` and the cache directory are
    searched. A name ``module:callable`` calls the user's function, with ``root`` (if given) and the
    options; it must return ``LabelledImages``.
    """
    if name not in DATASETS and ":" not in name:
        raise DataError(
            f"there is no data set {name!r}; choose one of {', '.join(DATASETS)}, "
            "or name your own function as module:callable"
        )
    home = DATASETS[name].home if name in DATASETS else name
    loader = load_callable(home, "data set", DataError)
    given = options if root is None else {"root": root, **options}
    try:
        inspect.signature(loader).bind(**given)
    except TypeError as error:
        accepted = ", ".join(inspect.signature(loader).parameters) or "none"
        raise DataError(f"{name}: {error}; its options are: {accepted}") from None
    with explained_errors(name, "data set", DataError) if ":" in name else nullcontext():
        data = loader(**given)
    if not isinstance(data, LabelledImages):
        raise DataError(f"{name} returned {type(data).__name__} instead of LabelledImages")
    return data

"""The class lists of the three benchmarks, in their standard order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fedgrain.catalogue import DATASETS
from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy.tree import Taxonomy
from fedgrain.taxonomy.wordnet import full_taxonomy

# Largest number of children when the taxonomy is coarsened (method, section 4).
DEFAULT_MAX_CHILDREN = {
    name: DATASETS[name].max_children for name in ("cifar100", "tiny-imagenet", "imagenet")
}


@dataclass(frozen=True)
class ClassList:
    """Classes of a data set in label order: their wnids and, where it has its own, their names."""

    wnids: tuple[str, ...]
    names: dict[str, str]


@cache
def class_list(dataset: str) -> ClassList:
    """Return the classes of cifar100, tiny-imagenet or imagenet."""
    if dataset not in DEFAULT_MAX_CHILDREN:
        raise TaxonomyError(
            f"there is no class list for {dataset!r}; choose {', '.join(DEFAULT_MAX_CHILDREN)}"
        )
    suffix = "tsv" if dataset == "cifar100" else "txt"
    text = (files("fedgrain.taxonomy") / "resources" / f"{dataset}.{suffix}").read_text("utf-8")
    if suffix == "txt":
        return ClassList(tuple(text.split()), {})
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return ClassList(
        tuple(wnid for _, wnid, _ in rows), {wnid: name.replace("_", " ") for name, wnid, _ in rows}
    )


@cache
def dataset_taxonomy(dataset: str) -> Taxonomy:
    """Return H_full of a benchmark."""
    classes = class_list(dataset)
    return full_taxonomy(classes.wnids, names=classes.names)

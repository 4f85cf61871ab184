"""What the three benchmarks have in common: class numbers in a standard order become leaves."""

from __future__ import annotations

import numpy as np

from fedgrain.images.cache import Stored
from fedgrain.images.images import LabelledImages, Normalisation
from fedgrain.taxonomy.classes import class_list, dataset_taxonomy

_SPLIT_NAMES = ("train", "test")


def benchmark_images(dataset: str, stored: Stored, normalisation: Normalisation) -> LabelledImages:
    """Return a cached benchmark with its labels at the leaves of its full taxonomy."""
    taxonomy = dataset_taxonomy(dataset)
    leaves = np.array([taxonomy.index(wnid) for wnid in class_list(dataset).wnids], np.int32)
    return LabelledImages(
        name=dataset,
        images=stored.images,
        labels=leaves[stored.labels],
        taxonomy=taxonomy,
        splits=stored.splits,
        split_names=_SPLIT_NAMES,
        normalisation=normalisation,
        unreadable=stored.unreadable,
    )

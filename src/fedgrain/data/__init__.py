"""Images and where they are stored: the benchmarks, the user's own, and an embedded set."""

from fedgrain.data.glyphs import load_glyphs
from fedgrain.data.load import load_dataset
from fedgrain.data.partition import (
    partition_dirichlet,
    partition_given,
    partition_iid,
    split_validation,
)
from fedgrain.images.images import LabelledImages, Normalisation

__all__ = [
    "LabelledImages",
    "Normalisation",
    "load_dataset",
    "load_glyphs",
    "partition_dirichlet",
    "partition_given",
    "partition_iid",
    "split_validation",
]

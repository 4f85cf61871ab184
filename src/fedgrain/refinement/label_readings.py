"""Which leaves a coarse label leaves open, by who wrote it: the same reading as in training.

Below its label everything is possible (*marginal*); or only what its writer cannot name
(*projection*, by a file or by inference); or each leaf as often as this writer writes this label
for it (*learned*).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import DataError
from fedgrain.images.images import LabelledImages
from fedgrain.knowledge import Knowledge, project_known
from fedgrain.knowledge.labeller import children_of, gathered
from fedgrain.knowledge.labeller_em import learned
from fedgrain.models.label_check import wrote_by_site
from fedgrain.models.trained_model import TrainedModel
from fedgrain.preparation.labellers import in_order_of_manifest, inferred, labellers
from fedgrain.taxonomy.tree import Taxonomy

READINGS = ("marginal", "projection", "learned")
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Weights = Callable[[int, int], Floats]  # (labeller, label) to the weights of all leaves of H


@dataclass(frozen=True, eq=False)
class SiteReading:
    """The training labels of one site, who wrote each, and what they leave open."""

    rows: Ints  # of the manifest
    who: Ints  # [rows]
    weights: Weights


def read_labels(
    reading: str,
    model: TrainedModel,
    data: LabelledImages,
    leaf_tables: Mapping[int, NDArray[np.float32]],
    knowledge: Path | None = None,
) -> list[SiteReading]:
    """Return how the labels of every site are read.

    ``leaf_tables`` has log P of the leaves under its label for every coarse row that was predicted.
    """
    if reading == "projection":
        return list(_projected(model, data, knowledge))
    if reading == "learned":
        return list(_learned(model, data, leaf_tables))
    ones = np.ones(len(model.taxonomy.leaves))
    everything = np.arange(len(data))
    return [SiteReading(everything, np.zeros_like(everything), lambda *_: ones)]


def _projected(
    model: TrainedModel, data: LabelledImages, file: Path | None
) -> Iterator[SiteReading]:
    tree, train = model.taxonomy, data.split_indices("train")
    names = data.client_names or (data.name,)
    owners = np.zeros(len(data), np.int32) if data.clients is None else data.clients
    parts = [train[owners[train] == number].astype(np.int64) for number in range(len(names))]
    if file is None:
        found = inferred(data, parts, names, None)
    elif data.clients is None:
        raise DataError(
            f"{file}: says what clients know, but the manifest names no clients; add the column "
            "client, or leave the file out"
        )
    else:
        loaded = Knowledge.load(file, data.taxonomy)
        found = in_order_of_manifest(loaded, data, str(file))
    for rows, people in zip(parts, labellers(found, data, tree), strict=True):
        written = project_known(tree, people.known).labels  # [labellers, leaves]
        who = people.part(data, rows, np.zeros_like(rows)).labellers
        yield SiteReading(rows, np.zeros_like(rows) if who is None else who, _cannot_name(written))


def _cannot_name(written: NDArray[np.int32]) -> Weights:
    return lambda labeller, label: (written[labeller] == label).astype(np.float64)


def _learned(
    model: TrainedModel, data: LabelledImages, leaf_tables: Mapping[int, NDArray[np.float32]]
) -> Iterator[SiteReading]:
    tree = model.taxonomy
    for site in wrote_by_site(model, data):
        coarse = tree.child_counts[site.labels] > 0
        seen = ~coarse | np.isin(site.images, list(leaf_tables))  # not what could not be read
        images, labels, who = site.images[seen], site.labels[seen], site.who[seen]
        shares = _shares_of_children(tree, images[coarse[seen]], labels[coarse[seen]], leaf_tables)
        found = learned(tree, gathered(tree, labels, who, len(site.names), shares))
        writes = np.stack([found.writes(number) for number in range(len(site.names))])
        yield SiteReading(site.images, site.who, _writes(writes, tree))


def _writes(writes: Floats, tree: Taxonomy) -> Weights:
    return lambda labeller, label: np.asarray(writes[labeller, :, tree.depth[label]])


def _shares_of_children(
    tree: Taxonomy, images: Ints, labels: Ints, leaf_tables: Mapping[int, NDArray[np.float32]]
) -> Floats:
    """Return the probability of each child of each label, given the label [images, children]."""
    children = children_of(tree, labels)
    first, end = tree.leaf_ranges
    shares = np.zeros(children.shape)
    for label in np.unique(labels).tolist():
        rows = np.flatnonzero(labels == label)
        table = np.stack([leaf_tables[int(image)] for image in images[rows]]).astype(np.float64)
        chances = np.exp(table - table.max(axis=1, keepdims=True))
        running = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(chances, axis=1)], axis=1)
        below = tree.children(label)
        sums = running[:, end[below] - first[label]] - running[:, first[below] - first[label]]
        shares[rows[:, None], np.arange(len(below))] = sums / running[:, -1:]
    return shares

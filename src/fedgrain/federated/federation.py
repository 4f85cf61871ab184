"""The clients of a federation, their data and knowledge (method, sections 5 and 10)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgrain.errors import FederationError
from fedgrain.heads.base import check_labels
from fedgrain.images.images import Normalisation
from fedgrain.taxonomy.tree import Taxonomy

Indices = NDArray[np.int64]


class Source(Protocol):
    """What a net is trained on: a stored row for each image, made into batches.

    The rows are pixels (:class:`ImageSource`), or what the frozen part of a trunk made of them
    (``fedgrain.trunks``). They may be a memory map larger than memory.
    """

    @property
    def array(self) -> NDArray[Any]:
        """All rows; processes share one copy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image: height, width, channels; or of its activations."""

    def batch(self, indices: Indices) -> Tensor:
        """Return the net's inputs for these images [batch, ...]."""

    def training_batch(self, indices: Indices, generator: np.random.Generator) -> Tensor:
        """Return the same for training, where a source may have several views of an image."""

    def on(self, array: NDArray[Any]) -> Source:
        """Return the same source over another copy of the rows."""


@dataclass(frozen=True, eq=False)
class ImageSource:
    """Stored images, normalised batch by batch.

    The stored array may be a memory map larger than memory. Its layout [images, height, width,
    channels] is what torch calls channels_last, so a batch needs no transposition.
    """

    images: NDArray[np.uint8]
    normalisation: Normalisation

    def batch(self, indices: Indices) -> Tensor:
        """Return normalised images [batch, channels, height, width], in channels_last layout."""
        stored = torch.from_numpy(np.ascontiguousarray(self.images[indices]))
        scale, shift = self._row_constants
        rows = (
            stored.flatten(2).float().mul_(scale).sub_(shift)
        )  # [batch, height, width * channels]
        return rows.view(stored.shape).permute(0, 3, 1, 2)

    def training_batch(self, indices: Indices, generator: np.random.Generator) -> Tensor:
        """Return the same as :meth:`batch`: an image has one view."""
        return self.batch(indices)

    def on(self, array: NDArray[Any]) -> ImageSource:
        """Return the same source over another copy of the images."""
        return replace(self, images=array)

    @property
    def array(self) -> NDArray[np.uint8]:
        """The stored images."""
        return self.images

    @cached_property
    def _row_constants(self) -> tuple[Tensor, Tensor]:
        """Scale and shift of a whole row of pixels: one long loop instead of many of length 3."""
        deviation = torch.tensor(self.normalisation.deviation)
        scale = (deviation * 255.0).reciprocal()
        shift = torch.tensor(self.normalisation.mean) / deviation
        width = self.images.shape[2]
        return scale.repeat(width), shift.repeat(width)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of one image."""
        height, width, channels = self.images.shape[1:]
        return height, width, channels


@dataclass(frozen=True, eq=False)
class LabelledPart:
    """Some of the images, each with a node of H as its label."""

    indices: Indices  # [samples], into the images
    labels: NDArray[np.int64]  # [samples], nodes of H
    labellers: Indices | None = None  # [samples], whose label it is: a row of what the client knows

    def __post_init__(self) -> None:
        if self.indices.shape != self.labels.shape:
            raise FederationError("every image of a client needs one label")
        if self.labellers is not None and self.labellers.shape != self.labels.shape:
            raise FederationError("give a labeller for every label of a client, or for none")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, chosen: NDArray[np.bool_] | Indices) -> LabelledPart:
        """Return the samples of a mask, or those with the given numbers."""
        labellers = None if self.labellers is None else self.labellers[chosen]
        return LabelledPart(self.indices[chosen], self.labels[chosen], labellers)

    def with_labellers(self, targets: Tensor) -> Tensor:
        """Append the labeller to each target [samples, 2] if a client has several."""
        if self.labellers is None:
            return targets
        return torch.stack([targets, torch.from_numpy(self.labellers)], 1)


@dataclass(frozen=True, eq=False)
class Client:
    """A client: its images with the labels it wrote, what it knows of H, its validation part.

    It is one labeller, or several who know different things; its parts then say who wrote a label.
    """

    name: str
    train: LabelledPart
    known: NDArray[np.bool_]  # [labellers, nodes of H], closed upwards
    validation: LabelledPart | None = None  # if the server has no validation images

    def __post_init__(self) -> None:
        if self.known.ndim != 2:
            raise FederationError("what a client knows is one row of nodes for each labeller")
        for part in (self.train, self.validation):
            if part is not None and (part.labellers is None) != (len(self.known) == 1):
                raise FederationError(
                    "give labellers per sample exactly where a client has several of them"
                )

    @property
    def knows(self) -> NDArray[np.bool_]:
        """What any of its labellers knows [nodes of H]."""
        return np.asarray(self.known.any(axis=0))


@dataclass(frozen=True, eq=False)
class Federation:
    """The clients, taxonomies and images that an algorithm trains on."""

    source: Source
    taxonomy: Taxonomy  # H: labels, heads and branches live here
    full_taxonomy: Taxonomy  # H_full: metrics live here
    clients: tuple[Client, ...]
    validation: LabelledPart | None  # the server's, labelled with full detail

    def __post_init__(self) -> None:
        if not self.clients:
            raise FederationError("a federation needs at least one client")
        if self.validation is None and not any(client.validation for client in self.clients):
            raise FederationError(
                "there is no validation data: early stopping needs it at the server or the clients"
            )
        for client in self.clients:  # checked once, here: losses do not check the range of labels
            check_labels(self.taxonomy, client.train.labels, f"the labels of {client.name}")
            if client.validation is not None:
                whose = f"the validation labels of {client.name}"
                check_labels(self.taxonomy, client.validation.labels, whose)
        if self.validation is not None:
            check_labels(self.taxonomy, self.validation.labels, "the server's validation labels")

"""What the trained part of a trunk takes: stored activations, or images run through the trunk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgrain.trunks.frozen import frozen, prepared
from fedgrain.trunks.spec import TrunkSpec

_Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StoredActivations:
    """Activations computed once: a row for each image, then rows of its augmented views."""

    array: NDArray[np.float32]  # [rows, ...], memory-mapped
    views: int = 1  # of an image, the plain one included
    first_view: _Indices | None = None  # [images], row of its first augmented view; -1: none

    def batch(self, indices: _Indices) -> Tensor:
        """Return the plain activations of images [batch, ...]."""
        # of a plain array: a memory map is a subclass of it, slow to index
        rows = torch.from_numpy(np.take(self.array.view(np.ndarray), indices, axis=0))
        return rows.contiguous(memory_format=torch.channels_last) if rows.ndim == 4 else rows

    def training_batch(self, indices: _Indices, generator: np.random.Generator) -> Tensor:
        """Return one view of each image, drawn anew."""
        if self.first_view is None:
            return self.batch(indices)
        drawn = generator.integers(0, self.views, size=len(indices))
        first = self.first_view[indices]
        augmented = (drawn > 0) & (first >= 0)
        return self.batch(np.where(augmented, first + drawn - 1, indices))

    def on(self, array: NDArray[Any]) -> StoredActivations:
        """Return the same over another copy of the array."""
        return replace(self, array=array)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image's activations."""
        return self.array.shape[1:]


@dataclass(frozen=True, eq=False)
class ThroughTrunk:
    """Images that pass the trunk's preprocessing, and its frozen part if it has one, when asked."""

    array: NDArray[np.uint8]  # [images, height, width, channels]
    trunk: TrunkSpec

    def batch(self, indices: _Indices) -> Tensor:
        """Return what the trained part takes [batch, ...]."""
        if self.trunk.train == "all":
            return prepared(self.array[indices], self.trunk.preprocessing)
        made = frozen(self.trunk)(self.array[indices])
        return made.contiguous(memory_format=torch.channels_last) if made.ndim == 4 else made

    def training_batch(self, indices: _Indices, generator: np.random.Generator) -> Tensor:
        """Return the same as :meth:`batch`."""
        return self.batch(indices)

    def on(self, array: NDArray[Any]) -> ThroughTrunk:
        """Return the same over another copy of the images."""
        return replace(self, array=array)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what the trained part takes."""
        return self.trunk.shape

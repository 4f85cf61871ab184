"""``LabelledImages``: the type of every data set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import DataError
from fedgrain.taxonomy.tree import Taxonomy


@dataclass(frozen=True)
class Normalisation:
    """Fixed mean and deviation per channel, of pixel/255 (method, section 10).

    They are constants of a data set, never statistics gathered across sites.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def apply(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return (pixel/255 - mean) / deviation of images [..., channels]."""
        scale = np.float32(1 / 255) / np.asarray(self.deviation, dtype=np.float32)
        shift = np.asarray(self.mean, np.float32) / np.asarray(self.deviation, np.float32)
        return np.asarray(images.astype(np.float32) * scale - shift, np.float32)


_LOOKED_AT = 64  # images that a fingerprint covers: a data set may be larger than memory
UNKNOWN_STATISTICS = Normalisation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))  # method, section 10


@dataclass(frozen=True, eq=False, repr=False)
class LabelledImages:
    """Images, each labelled with a node of a taxonomy, and their clients and annotators if known.

    ``images`` may be a memory map, larger than memory: index it, do not copy it. ``labels`` are
    node numbers of ``taxonomy``, at any depth: leaves in the benchmarks, whatever the labeller knew
    in a user's manifest.
    """

    name: str
    images: NDArray[np.uint8]  # [images, height, width, channels]
    labels: NDArray[np.int32]  # [images]
    taxonomy: Taxonomy
    splits: NDArray[np.int8]  # [images], into split_names
    split_names: tuple[str, ...]
    normalisation: Normalisation = UNKNOWN_STATISTICS
    clients: NDArray[np.int32] | None = None  # [images], into client_names; -1 where not given
    client_names: tuple[str, ...] = ()
    annotators: NDArray[np.int32] | None = None  # [images], into annotator_names; -1 likewise
    annotator_names: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()  # skipped files and why

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together."""
        if self.images.ndim != 4 or self.images.dtype != np.uint8:
            raise DataError(
                f"{self.name}: images must be uint8 [images, height, width, channels], "
                f"not {self.images.dtype} {list(self.images.shape)}"
            )
        if len(self.normalisation.mean) != self.channels:
            raise DataError(f"{self.name}: the normalisation does not fit {self.channels} channels")
        self._check("labels", self.labels, np.dtype(np.int32), len(self.taxonomy), 0)
        self._check("splits", self.splits, np.dtype(np.int8), len(self.split_names), 0)
        for what in ("client", "annotator"):
            numbers = getattr(self, f"{what}s")
            if numbers is not None:
                names = getattr(self, f"{what}_names")
                self._check(f"{what}s", numbers, np.dtype(np.int32), len(names), -1)

    def _check(
        self, what: str, numbers: NDArray[Any], dtype: np.dtype[Any], end: int, start: int
    ) -> None:
        if numbers.shape != (len(self.images),) or numbers.dtype != dtype:
            raise DataError(
                f"{self.name}: {what} must be {dtype} [{len(self.images)}], one per image, "
                f"not {numbers.dtype} {list(numbers.shape)}"
            )
        if numbers.size and not start <= numbers.min() <= numbers.max() < end:
            raise DataError(f"{self.name}: {what} must lie between {start} and {end - 1}")

    def __repr__(self) -> str:
        height, width = self.size
        splits = ", ".join(f"{name} {count}" for name, count in self.split_counts.items())
        return f"LabelledImages({self.name!r}: {splits}; {height}x{width}x{self.channels})"

    def __len__(self) -> int:
        return len(self.images)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.images.shape[1], self.images.shape[2]

    @property
    def channels(self) -> int:
        """Number of channels, 3 for everything this room loads."""
        return int(self.images.shape[3])

    @property
    def split_counts(self) -> dict[str, int]:
        """Number of images per split."""
        counts = np.bincount(self.splits, minlength=len(self.split_names))
        return {name: int(count) for name, count in zip(self.split_names, counts, strict=True)}

    @property
    def fingerprint(self) -> str:
        """A digest of the tree, labels, labellers, splits and some of the images."""
        found = hashlib.sha256(self.taxonomy.content_hash.encode())
        found.update(repr((self.images.shape, self.split_names, self.client_names)).encode())
        for numbers in (self.labels, self.splits, self.clients, self.annotators):
            found.update(b"" if numbers is None else np.ascontiguousarray(numbers).tobytes())
        if self.annotators is not None:
            found.update(repr(self.annotator_names).encode())
        for number in np.linspace(0, len(self) - 1, min(len(self), _LOOKED_AT), dtype=np.int64):
            found.update(np.ascontiguousarray(self.images[number]).tobytes())
        return found.hexdigest()

    def split_indices(self, split: str) -> NDArray[np.int64]:
        """Return the numbers of a split's images, ascending."""
        if split not in self.split_names:
            raise DataError(
                f"{self.name} has no split {split!r}; it has {', '.join(self.split_names)}"
            )
        return np.flatnonzero(self.splits == self.split_names.index(split))

    def of_split(self, split: str) -> LabelledImages:
        """Return the images of one split."""
        return self.subset(self.split_indices(split))

    def subset(self, indices: NDArray[np.integer[Any]]) -> LabelledImages:
        """Return the images with the given numbers, in that order.

        One unbroken run of numbers gives a view; anything else copies those pixels into memory, so
        for data larger than memory keep the numbers and index ``images`` batch by batch.
        """
        indices = np.asarray(indices, dtype=np.int64)
        chosen: Any = indices
        if len(indices) and np.array_equal(indices, indices[0] + np.arange(len(indices))):
            chosen = slice(int(indices[0]), int(indices[0]) + len(indices))
        return replace(
            self,
            images=self.images[chosen],
            labels=self.labels[chosen],
            splits=self.splits[chosen],
            clients=None if self.clients is None else self.clients[chosen],
            annotators=None if self.annotators is None else self.annotators[chosen],
        )

    def in_taxonomy(self, taxonomy: Taxonomy) -> LabelledImages:
        """Move every label to its nearest ancestor in another tree, such as the coarsened one."""
        moved = self.taxonomy.nearest_in(taxonomy)[self.labels]
        return replace(self, labels=moved, taxonomy=taxonomy)

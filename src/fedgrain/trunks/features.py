"""Features made once per image: on all cores, kept on disk, shared by all runs on the machine."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from fedgrain import arithmetic
from fedgrain.cores import available_cores
from fedgrain.images.cache import create_array, load_or_make
from fedgrain.images.images import LabelledImages
from fedgrain.images.places import cache_directory
from fedgrain.trunks.frozen import Frozen, frozen
from fedgrain.trunks.sources import StoredActivations, ThroughTrunk
from fedgrain.trunks.spec import TrunkSpec, blocks_trained
from fedgrain.trunks.views import view

_ARRAY = "activations.npy"
_TASK = 512  # rows that a thread makes at a time: whole batches
_BLOCK = 2**24  # bytes of images hashed at a time


@dataclass(frozen=True)
class Views:
    """How many views of each training image there are, and the seed that draws them."""

    count: int = 1  # the plain image included
    seed: int = 0


def inputs_of(
    trunk: TrunkSpec, data: LabelledImages, views: Views | None = None
) -> StoredActivations | ThroughTrunk:
    """Return what the trained part takes for every image of a data set.

    Activations of a frozen part are made once and kept in the cache; where the disk has no room
    for them, and where nothing is frozen, images pass the trunk each time they are asked for.
    """
    views = views or Views()
    plain = ThroughTrunk(data.images, trunk)
    if trunk.train == "all":
        return plain
    augmented = _training_images(data) if views.count > 1 else np.empty(0, np.int64)
    shape = (len(data) + len(augmented) * (views.count - 1), *trunk.shape)
    key = _key(trunk, data, views, augmented)

    def make(folder: Path) -> dict[str, Any]:
        target = create_array(folder / _ARRAY, shape, np.dtype(np.float32))
        _Maker(frozen(trunk), data.images, augmented, views).write(target)
        return {"trunk": trunk.net, "rows": shape[0]}

    needed = 4 * int(np.prod(shape, dtype=np.int64))
    folder = cache_directory()
    folder.mkdir(parents=True, exist_ok=True)
    kept = load_or_make(
        "features",
        trunk.net.replace(":", "-").replace("/", "-"),
        key,
        (_ARRAY,),
        make,
        what="the features",
        room=lambda: shutil.disk_usage(folder).free > needed,
    )
    if kept is None:
        return plain
    if not len(augmented):
        return StoredActivations(kept[0][_ARRAY])
    first = np.full(len(data), -1, np.int64)
    first[augmented] = len(data) + np.arange(len(augmented)) * (views.count - 1)
    return StoredActivations(kept[0][_ARRAY], views.count, first)


def _training_images(data: LabelledImages) -> NDArray[np.int64]:
    return data.split_indices("train") if "train" in data.split_names else np.empty(0, np.int64)


def _key(
    trunk: TrunkSpec, data: LabelledImages, views: Views, augmented: NDArray[np.int64]
) -> dict[str, Any]:
    """Return all that the activations depend on."""
    about = {n: v for n, v in trunk.content().items() if n not in ("found_as", "hidden")}
    key: dict[str, Any] = {
        "trunk": about,
        "arithmetic": arithmetic.in_use(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "images": _images_digest(data.images),
    }
    if not blocks_trained(trunk.train):
        key["features"] = "normalised"
    if len(augmented):
        chosen = hashlib.sha256(augmented.tobytes()).hexdigest()
        key["views"] = [views.count, views.seed, chosen]
    return key


def _images_digest(images: NDArray[np.uint8]) -> str:
    """Return a digest of every pixel, computed on all cores."""
    rows = max(1, _BLOCK // max(1, int(np.prod(images.shape[1:]))))

    def block(start: int) -> bytes:
        part = np.ascontiguousarray(images[start : start + rows])
        return hashlib.sha256(part.data).digest()

    found = hashlib.sha256(repr(images.shape).encode())
    with ThreadPoolExecutor(available_cores()) as threads:
        for part in threads.map(block, range(0, len(images), rows)):
            found.update(part)
    return found.hexdigest()


@dataclass(frozen=True, eq=False)
class _Maker:
    """Makes all rows: every image, then the augmented views of some."""

    frozen: Frozen
    images: NDArray[np.uint8]
    augmented: NDArray[np.int64]
    views: Views

    def write(self, target: Path) -> None:
        """Write all rows, tasks of whole batches side by side: bits do not depend on the cores."""
        rows = np.load(target, mmap_mode="r+")
        starts = range(0, len(rows), _TASK)
        if len(rows) > _TASK:
            self.frozen.hurry()  # before there are threads
        with (
            tqdm(total=len(rows), desc="features", unit=" images", disable=None) as bar,
            _threads() as threads,
        ):
            for start, made in zip(starts, threads.map(self._rows, starts), strict=True):
                rows[start : start + len(made)] = made.numpy()
                bar.update(len(made))
        rows.flush()

    def _rows(self, start: int) -> Tensor:
        end = min(start + _TASK, len(self.images) + len(self.augmented) * (self.views.count - 1))
        plain = self.images[start : min(end, len(self.images))]
        parts = [self.frozen(plain)] if len(plain) else []
        first = max(start, len(self.images))
        if first < end:
            parts.append(self.frozen.of_batches(self._view_batches(first, end)))
        return torch.cat(parts)

    def _view_batches(self, start: int, end: int) -> Iterator[Tensor]:
        more, how = self.views.count - 1, self.frozen.preprocessing
        for row in range(start, end, self.frozen.at_once):
            some = range(row, min(row + self.frozen.at_once, end))
            pairs = [divmod(number - len(self.images), more) for number in some]
            yield torch.cat(
                [
                    view(self.images[image], how, self.views.seed, int(image), number + 1)
                    for image, number in ((self.augmented[i], n) for i, n in pairs)
                ]
            )


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Provide a thread per core, in each of which torch computes alone."""
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(available_cores(), initializer=torch.set_num_threads, initargs=(1,))
    try:
        torch.set_num_threads(1)
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)

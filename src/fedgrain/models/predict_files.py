"""Predict many image files, on all cores; one that cannot be read costs only its own row."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
from PIL import Image

from fedgrain.arithmetic import one_thread
from fedgrain.cores import process_map, workers_wanted
from fedgrain.data.decode import decode_image, why_unreadable
from fedgrain.errors import RunError
from fedgrain.folders.image_paths import ImagePath
from fedgrain.models.model_folder import load
from fedgrain.models.trained_model import Prediction, TrainedModel
from fedgrain.plugins import Trust

_BLOCK = 64  # files per task
_WORTH_PROCESSES = 6.0  # seconds of work left: below, starting processes takes longer
_MOST_THUMBNAILS = 1024  # a page with all of them stays below 10 MB
_QUALITY = 80  # of a thumbnail


@dataclass(frozen=True)
class PredictedFile:
    """A file with its prediction, or with the reason why it has none."""

    image: str
    prediction: Prediction | None
    problem: str = ""
    thumbnail: bytes = b""  # JPEG


@dataclass(frozen=True)
class Asked:
    """What to do with every file: the rule, and the side of a thumbnail (0: none).

    ``net_weights`` is where the weights of the model's trunk are, if they have moved.
    """

    rule: str = "leaf"
    threshold: float | None = None
    thumbnail: int = 0
    net_weights: str | None = None


_Block = tuple[Sequence[ImagePath], Asked]


def predict_files(
    folder: str | Path,
    images: Sequence[ImagePath],
    asked: Asked,
    *,
    workers: int | str = "auto",
    trust_code: Trust = False,
) -> Iterator[PredictedFile]:
    """Yield a row per file, in order, as soon as it is there.

    The first files are predicted in this process, which shows how long the rest will take; once
    that is long, processes take over. The rows do not depend on it.
    """
    processes = workers_wanted(workers)
    trust = trust_code if isinstance(trust_code, bool) else tuple(trust_code)
    model = load(folder, trust_code=trust, net_weights=asked.net_weights)
    blocks = list(_blocks(images, asked))
    begun = time.perf_counter()
    for done, (files, wanted) in enumerate(blocks, 1):
        with one_thread():
            rows = predict_block(model, files, wanted)
        yield from rows
        left = (len(blocks) - done) * (time.perf_counter() - begun) / done
        if left > _WORTH_PROCESSES and processes > 1:
            yield from _in_processes(folder, trust, blocks[done:], processes)
            return


def _blocks(images: Sequence[ImagePath], asked: Asked) -> Iterator[_Block]:
    for start in range(0, len(images), _BLOCK):
        full = start >= _MOST_THUMBNAILS
        yield images[start : start + _BLOCK], replace(asked, thumbnail=0) if full else asked


def _in_processes(
    folder: str | Path, trust: bool | tuple[str, ...], blocks: Sequence[_Block], processes: int
) -> Iterator[PredictedFile]:
    tasks = [(str(folder), trust, block) for block in blocks]
    try:
        with process_map(min(processes, len(tasks))) as mapper:
            yield from chain.from_iterable(mapper(_predict_task, tasks))
    except BrokenProcessPool:
        raise RunError(
            "a predicting process ended unexpectedly, perhaps for lack of memory; "
            "FEDGRAIN_WORKERS=1 predicts without other processes"
        ) from None


def predict_block(
    model: TrainedModel, images: Sequence[ImagePath], asked: Asked
) -> list[PredictedFile]:
    """Return a row per file; those that can be read go through the net together."""
    height, width, channels = model.image_shape
    if height != width or channels != 3:
        raise RunError(
            f"the model takes images of {height} x {width} pixels in {channels} channels, not "
            "square colour pictures; give arrays of that shape to predict in Python"
        )
    rows: list[PredictedFile] = []
    pixels = []
    for image in images:
        row = PredictedFile(image.path, None, image.problem)
        if not image.problem:
            try:
                decoded = decode_image(image.path, height, model.interpolation)
                row = PredictedFile(image.path, None, thumbnail=_thumbnail(image.path, asked))
                pixels.append(decoded)
            except Exception as error:  # decoders raise anything on damaged files
                row = PredictedFile(image.path, None, why_unreadable(image.path, error))
        rows.append(row)
    readable = np.stack(pixels) if pixels else np.empty((0, *model.image_shape), np.uint8)
    found = iter(model.predict(readable, asked.rule, asked.threshold))
    return [
        row if row.problem else PredictedFile(row.image, next(found), thumbnail=row.thumbnail)
        for row in rows
    ]


def _thumbnail(path: str, asked: Asked) -> bytes:
    if not asked.thumbnail:
        return b""
    into = io.BytesIO()
    picture = Image.fromarray(decode_image(path, asked.thumbnail))
    picture.save(into, format="JPEG", quality=_QUALITY)
    return into.getvalue()


@lru_cache(maxsize=1)
def _loaded(folder: str, trust: bool | tuple[str, ...], weights: str | None) -> TrainedModel:
    """Load the model once per process of the pool."""
    return load(folder, trust_code=trust, net_weights=weights)


def _predict_task(task: tuple[str, bool | tuple[str, ...], _Block]) -> list[PredictedFile]:
    folder, trust, (images, asked) = task
    with one_thread():
        return predict_block(_loaded(folder, trust, asked.net_weights), images, asked)

"""Predict many image files, on all cores; one that cannot be read costs only its own row."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedgrain.arithmetic import one_thread
from fedgrain.cores import process_map, workers_wanted
from fedgrain.errors import RunError
from fedgrain.folders.image_paths import ImagePath
from fedgrain.images.decode import decode_image, why_unreadable
from fedgrain.models.answers import Question
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

    ``net_weights`` is where the weights of the model's trunk are, if they have moved. ``wanted``
    is what is asked of the model instead of the rule alone.
    """

    rule: str = "leaf"
    threshold: float | None = None
    thumbnail: int = 0
    net_weights: str | None = None
    wanted: Question | None = None


Files = Sequence[ImagePath]
Wanted = TypeVar("Wanted")
Row = TypeVar("Row")


def predict_files(
    folder: str | Path,
    images: Sequence[ImagePath],
    asked: Asked,
    *,
    workers: int | str = "auto",
    trust_code: Trust = False,
) -> Iterator[PredictedFile]:
    """Yield a row per file, in order, as soon as it is there."""
    place = ModelPlace(str(folder), _fixed(trust_code), asked.net_weights)
    return work_on_files(place, list(_blocks(images, asked)), predict_block, workers=workers)


@dataclass(frozen=True)
class ModelPlace:
    """What a process needs to load a model."""

    folder: str
    trust_code: bool | tuple[str, ...] = False
    net_weights: str | None = None


def work_on_files(
    place: ModelPlace,
    blocks: Sequence[tuple[Files, Wanted]],
    work: Callable[[TrainedModel, Files, Wanted], list[Row]],
    *,
    workers: int | str = "auto",
) -> Iterator[Row]:
    """Yield the rows that ``work`` makes of every block of files, in order.

    The first blocks are done in this process, which shows how long the rest will take; once that is
    long, processes take over. The rows do not depend on it.
    """
    processes = workers_wanted(workers)
    model = load(place.folder, trust_code=place.trust_code, net_weights=place.net_weights)
    begun = time.perf_counter()
    for done, (files, wanted) in enumerate(blocks, 1):
        with one_thread():
            rows = work(model, files, wanted)
        yield from rows
        left = (len(blocks) - done) * (time.perf_counter() - begun) / done
        if left > _WORTH_PROCESSES and processes > 1:
            yield from _in_processes(place, blocks[done:], work, processes)
            return


def _fixed(trust: Trust) -> bool | tuple[str, ...]:
    return trust if isinstance(trust, bool) else tuple(trust)


def _blocks(images: Sequence[ImagePath], asked: Asked) -> Iterator[tuple[Files, Asked]]:
    for start in range(0, len(images), _BLOCK):
        full = start >= _MOST_THUMBNAILS
        yield images[start : start + _BLOCK], replace(asked, thumbnail=0) if full else asked


def _in_processes(
    place: ModelPlace,
    blocks: Sequence[tuple[Files, Wanted]],
    work: Callable[[TrainedModel, Files, Wanted], list[Row]],
    processes: int,
) -> Iterator[Row]:
    tasks = [(place, work, block) for block in blocks]
    try:
        with process_map(min(processes, len(tasks))) as mapper:
            yield from chain.from_iterable(mapper(_task, tasks))
    except BrokenProcessPool:
        raise RunError(
            "a predicting process ended unexpectedly, perhaps for lack of memory; "
            "FEDGRAIN_WORKERS=1 predicts without other processes"
        ) from None


def predict_block(model: TrainedModel, images: Files, asked: Asked) -> list[PredictedFile]:
    """Return a row per file; those that can be read go through the net together."""
    problems, pixels = read_block(model, images)
    found = iter(model.answered(pixels, asked.wanted or Question(asked.rule, asked.threshold)))
    return [
        PredictedFile(image.path, None, problem)
        if problem
        else PredictedFile(image.path, next(found), thumbnail=_thumbnail(image.path, asked))
        for image, problem in zip(images, problems, strict=True)
    ]


def read_block(model: TrainedModel, images: Files) -> tuple[list[str], NDArray[np.uint8]]:
    """Return why each file cannot be read, empty if it can, and the pixels of those that can."""
    height, width, channels = model.image_shape
    if height != width or channels != 3:
        raise RunError(
            f"the model takes images of {height} x {width} pixels in {channels} channels, not "
            "square colour pictures; give arrays of that shape to predict in Python"
        )
    problems, pixels = [], []
    for image in images:
        problem = image.problem
        if not problem:
            try:
                pixels.append(decode_image(image.path, height, model.interpolation))
            except Exception as error:  # decoders raise anything on damaged files
                problem = why_unreadable(image.path, error)
        problems.append(problem)
    return problems, np.stack(pixels) if pixels else np.empty((0, *model.image_shape), np.uint8)


def _thumbnail(path: str, asked: Asked) -> bytes:
    if not asked.thumbnail:
        return b""
    into = io.BytesIO()
    picture = Image.fromarray(decode_image(path, asked.thumbnail))
    picture.save(into, format="JPEG", quality=_QUALITY)
    return into.getvalue()


@lru_cache(maxsize=1)
def _loaded(place: ModelPlace) -> TrainedModel:
    """Load the model once per process of the pool."""
    return load(place.folder, trust_code=place.trust_code, net_weights=place.net_weights)


def _task(task: tuple[ModelPlace, Callable[..., list[Row]], tuple[Files, Wanted]]) -> list[Row]:
    place, work, (files, wanted) = task
    with one_thread():
        return work(_loaded(place), files, wanted)

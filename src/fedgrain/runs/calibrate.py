"""Calibrate a model: on the validation data of its run, or on images of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrain.calibration.record import Calibration, calibrate
from fedgrain.checked_json import read_checked_json, write_checked_json
from fedgrain.federated.federation import Federation, LabelledPart
from fedgrain.heads import DecoupledModel
from fedgrain.images.images import LabelledImages
from fedgrain.models.model_folder import description_of
from fedgrain.models.trained_model import Images, TrainedModel
from fedgrain.runs.evaluate import truths

VALIDATION = "the validation images of the run"
_MOST_IMAGES = 20_000  # of a site or the server, evenly spaced
_MOST_BY_BRANCH = 2_000  # with a net for each branch an image costs much more

Calibrator = Callable[[TrainedModel], Calibration | None]


def on_validation(federation: Federation, *, per_depth: bool = False) -> Calibrator:
    """Return the calibration by a federation's validation images, the server's or the sites'.

    A run itself takes one temperature: it leaves the likeliest leaf, and so its scores, as trained.
    """

    def calibrated(model: TrainedModel) -> Calibration | None:
        parts = [(part.indices, part.labels) for part in _validation_parts(federation)]
        return calibration_on(model, federation.source, parts, VALIDATION, per_depth=per_depth)

    return calibrated


def _validation_parts(federation: Federation) -> Iterator[LabelledPart]:
    if federation.validation is not None:
        yield federation.validation
        return
    for client in federation.clients:
        if client.validation is not None:
            yield client.validation


def calibration_on(
    model: TrainedModel,
    images: Images,
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
    source: str,
    *,
    per_depth: bool = False,
) -> Calibration | None:
    """Calibrate on parts of stored images, each with its numbers and labels (nodes of H).

    The model's own temperature plays no part: logits come before it.
    """
    bare = replace(model, calibration=None)
    found = []
    for numbers, labels in parts:
        kept = spaced(len(numbers), by_branch=isinstance(model.net, DecoupledModel))
        if len(kept):
            found.append((bare.logits(images, numbers[kept]).cpu(), labels[kept]))
    return calibrate(model.head, found, source, per_depth=per_depth)


def calibration_by(
    model: TrainedModel,
    data: LabelledImages,
    chosen: NDArray[np.int64] | None = None,
    *,
    per_depth: bool = False,
) -> Calibration | None:
    """Calibrate on all or some images of a data set, with labels of the model's full taxonomy."""
    chosen = np.arange(len(data)) if chosen is None else chosen
    labels = model.full_taxonomy.nearest_in(model.taxonomy)[truths(model, data, chosen)]
    parts = [(chosen, labels.astype(np.int64))]
    return calibration_on(model, model.inputs(data), parts, data.name, per_depth=per_depth)


def keep_calibration(folder: str | Path, model: TrainedModel, found: Calibration) -> None:
    """Write the calibration into the description of a model, whole or not at all."""
    place = description_of(folder)
    content = read_checked_json(place)
    write_checked_json(place, {**content, "calibration": found.entries(model.taxonomy)})


def spaced(images: int, *, by_branch: bool) -> NDArray[np.int64]:
    """Return which of so many images are used, evenly spaced."""
    most = min(images, _MOST_BY_BRANCH if by_branch else _MOST_IMAGES)
    return np.linspace(0, max(images - 1, 0), most).round().astype(np.int64)

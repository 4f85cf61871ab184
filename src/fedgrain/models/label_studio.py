"""Predictions as Label Studio's pre-annotations: tasks with a choice in a Taxonomy tag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from fedgrain.models.exchange import PredictedBy, json_list
from fedgrain.models.predict_files import PredictedFile

FROM, TO = "taxonomy", "image"  # the names of the tags in the labelling config
_SERVED = "/data/local-files/?d="  # how Label Studio shows files of its own machine


def as_label_studio(rows: Iterable[PredictedFile], by: PredictedBy) -> Iterator[str]:
    """Yield the list of tasks; an image that could not be read is a task without a prediction."""
    return json_list("", (_task(row, by) for row in rows), "")


def _task(row: PredictedFile, by: PredictedBy) -> dict[str, Any]:
    task: dict[str, Any] = {"data": {TO: address(row.image)}}
    if row.prediction is None or len(row.prediction.names) == 1:  # the root says nothing
        return task
    choice = {
        "id": "fedgrain",
        "from_name": FROM,
        "to_name": TO,
        "type": "taxonomy",
        "value": {"taxonomy": [list(row.prediction.names[1:])]},
    }
    score = row.prediction.probability
    return {
        **task,
        "predictions": [{"model_version": by.model, "score": score, "result": [choice]}],
    }


def address(image: str) -> str:
    """Return where Label Studio finds an image; a web address stays as it is."""
    return image if "://" in image else _SERVED + quote(image)

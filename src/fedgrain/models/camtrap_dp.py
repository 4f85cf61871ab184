"""Predictions as the ``observations.csv`` of a Camtrap DP package (version 1.0).

An observation belongs to a medium and a deployment, so the package's own ``media.csv`` must lie
beside the images or above them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.files import read_text
from fedgrain.models.exchange import PredictedBy
from fedgrain.models.predict_files import PredictedFile
from fedgrain.models.trained_model import Prediction
from fedgrain.parsing import csv_rows
from fedgrain.text import encodable

COLUMNS = (
    "observationID", "deploymentID", "mediaID", "eventID", "eventStart", "eventEnd",
    "observationLevel", "observationType", "cameraSetupType", "scientificName", "count",
    "lifeStage", "sex", "behavior", "individualID", "individualPositionRadius",
    "individualPositionAngle", "individualSpeed", "bboxX", "bboxY", "bboxWidth", "bboxHeight",
    "classificationMethod", "classifiedBy", "classificationTimestamp",
    "classificationProbability", "observationTags", "observationComments",
)  # fmt: skip
_MEDIA = "media.csv"
_NEEDED = ("mediaID", "deploymentID", "timestamp", "filePath")
_TYPES = {"human": "human", "person": "human", "homo sapiens": "human", "vehicle": "vehicle",
          "blank": "blank", "empty": "blank"}  # fmt: skip
_ANIMAL = ("animal", "animals", "animalia")


@dataclass(frozen=True)
class Medium:
    """A line of ``media.csv``."""

    number: str
    deployment: str
    timestamp: str


def as_camtrap_dp(rows: Iterable[PredictedFile], by: PredictedBy) -> Iterator[str]:
    """Yield the table, an observation per image."""
    into = io.StringIO()
    writer = csv.DictWriter(into, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    tables: dict[Path, dict[str, Medium]] = {}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for row in rows:
        told = {**_observation(row, by, tables), "classificationTimestamp": now}
        writer.writerow({name: encodable(text) for name, text in told.items()})
        yield into.getvalue()
        into.seek(0)
        into.truncate()
    yield into.getvalue()


def check_media(images: Iterable[str]) -> None:
    """Refuse an image that no package lists, before any is predicted."""
    tables: dict[Path, dict[str, Medium]] = {}
    for image in images:
        _medium(Path(image), tables)


def _observation(
    row: PredictedFile, by: PredictedBy, tables: dict[Path, dict[str, Medium]]
) -> dict[str, str]:
    medium = _medium(Path(row.image), tables)
    told = {
        "observationID": f"{medium.number}_fedgrain",
        "deploymentID": medium.deployment,
        "mediaID": medium.number,
        "eventStart": medium.timestamp,
        "eventEnd": medium.timestamp,
        "observationLevel": "media",
        "classificationMethod": "machine",
        "classifiedBy": by.model,
    }
    if row.prediction is None:
        return {**told, "observationType": "unclassified", "observationComments": row.problem}
    kind = _kind(row.prediction)
    taxon = row.prediction.name if kind in ("animal", "human") else ""
    if len(row.prediction.names) == 1:
        taxon = ""
    chance = f"{row.prediction.probability:.6g}"
    told |= {"observationType": kind, "scientificName": taxon}
    return {**told, "classificationProbability": chance}


def _kind(found: Prediction) -> str:
    """Return the type; a root that does not say that it is an animal is unknown."""
    names = [name.strip().lower() for name in found.names]
    for name in names:
        if name in _TYPES:
            return _TYPES[name]
    return "unknown" if len(names) == 1 and names[0] not in _ANIMAL else "animal"


def _medium(image: Path, tables: dict[Path, dict[str, Medium]]) -> Medium:
    """Return the line of an image; ``tables`` are those that were read before."""
    place = image.absolute()
    for folder in place.parents:
        if folder in tables or (folder / _MEDIA).is_file():
            if folder not in tables:
                tables[folder] = _media(folder / _MEDIA)
            found = tables[folder].get(place.relative_to(folder).as_posix())
            if found is None:
                raise DataError(
                    f"{image}: no line of {folder / _MEDIA} has it as its filePath; add it, or "
                    "leave the image out"
                )
            return found
    raise DataError(
        f"{image}: no {_MEDIA} of a Camtrap DP package beside it or above it; observations need "
        "its mediaID, deploymentID and timestamp"
    )


def _media(path: Path) -> dict[str, Medium]:
    """Read a package's table of media, by file."""

    def check(header: list[str]) -> None:
        if missing := [name for name in _NEEDED if name not in header]:
            raise DataError(f"{path}, line 1: no column {missing[0]}; Camtrap DP 1.0 needs it")

    return {
        str(row["filePath"]).removeprefix("./"): Medium(
            str(row["mediaID"]), str(row["deploymentID"]), str(row["timestamp"])
        )
        for _, row in csv_rows(read_text(path), path, DataError, check)
    }

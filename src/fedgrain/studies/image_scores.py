"""What the models of a study score on each test image, where the images belong to real sites.

A run's ``result.json`` has means over all test images. To compare runs site by site, with
intervals, each score is kept: ``tested/RUN.json`` in the study's folder, written once per run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.arithmetic import one_thread
from fedgrain.checked_json import read_checked_json
from fedgrain.checksums import digest, write_checked
from fedgrain.errors import StudyError
from fedgrain.files import read_bytes
from fedgrain.models.model_folder import load
from fedgrain.plugins import Trust
from fedgrain.preparation.prepare import load_images
from fedgrain.runs.evaluate import predicted_nodes, truths
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.metrics import comparable, hierarchical_scores
from fedgrain.studies.planned_runs import PlannedRun
from fedgrain.studies.scheduling import StudyProgress
from fedgrain.studies.study_folder import StudyFolder


@dataclass(frozen=True, eq=False)
class ImageScores:
    """The scores of one model on the test images, and whose images they are."""

    hf: NDArray[np.float64]  # [images], after cutting back where the label is coarse
    site: NDArray[np.int64]  # [images], into sites; -1 where the manifest names none
    in_full: NDArray[np.bool_]  # [images], whether the label is a leaf
    sites: tuple[str, ...]

    def same_images(self, other: ImageScores) -> bool:
        """Return whether both are scores of the same images."""
        return self.sites == other.sites and np.array_equal(self.site, other.site)


def score_runs(planned: Sequence[PlannedRun], place: StudyFolder, progress: StudyProgress) -> None:
    """Score every finished run that has not been scored since it ended; skip without test images.

    The code that the configs name is trusted: the runs have just executed it.
    """
    finished = [run for run in planned if RunFolder(place.runs / run.name).result.exists()]
    missing = [run for run in finished if _read(place, run.name) is None]
    if not missing:
        return
    progress.start("tests", len(finished), len(finished) - len(missing))
    for run in missing:
        scores = _scores(RunFolder(place.runs / run.name), run.config.code())
        if scores is not None:
            place.tested.mkdir(exist_ok=True)
            write_checked(place.tested / f"{run.name}.json", scores, indent=None)
        progress.finished(run.name, None)


def _scores(folder: RunFolder, trust_code: Trust) -> dict[str, Any] | None:
    """Let the model of a run predict the test images; None if none of them names its site."""
    model = load(folder.path, trust_code=trust_code)
    data = load_images(folder.read_config().complete(), model.trunk)
    if not data.split_counts.get("test") or data.clients is None:
        return None
    chosen = data.split_indices("test")
    truth = truths(model, data, chosen)
    with one_thread():
        nodes = predicted_nodes(model, model.inputs(data), chosen, "leaf", None)
    prediction = comparable(nodes, truth, model.taxonomy, model.full_taxonomy)
    scores = hierarchical_scores(truth, prediction, model.full_taxonomy)
    return {
        "result": _digest(folder.result),
        "sites": list(data.client_names),
        "site": data.clients[chosen].tolist(),
        "in_full": model.full_taxonomy.is_leaf(truth).astype(int).tolist(),
        "hf": scores.hf.tolist(),
    }


def read_scores(place: StudyFolder, names: Sequence[str]) -> list[ImageScores] | None:
    """Return the scores of some runs; None if one of them has none."""
    found = [_read(place, name) for name in names]
    tested = [one for one in found if one is not None]
    return tested if len(tested) == len(names) else None


def _read(place: StudyFolder, name: str) -> ImageScores | None:
    """Return the scores of a run, unless it has gone on since."""
    path, result = place.tested / f"{name}.json", RunFolder(place.runs / name).result
    if not path.exists() or not result.exists():
        return None
    content = read_checked_json(path)
    if content.get("result") != _digest(result):
        return None
    try:
        tested = ImageScores(
            np.array(content["hf"], np.float64),
            np.array(content["site"], np.int64),
            np.array(content["in_full"], np.bool_),
            tuple(map(str, content["sites"])),
        )
    except (KeyError, TypeError, ValueError):
        raise StudyError(f"{path}: damaged; remove the file and run the study again") from None
    if not tested.hf.shape == tested.site.shape == tested.in_full.shape:
        raise StudyError(f"{path}: damaged; remove the file and run the study again")
    return tested


def _digest(path: Path) -> str:
    return digest([read_bytes(path)])

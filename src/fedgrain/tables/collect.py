"""The results of a study: scores per data set, method, alpha and seed, and the paper's."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from fedgrain.errors import StudyError
from fedgrain.runs.run_folder import RunFolder
from fedgrain.studies.image_scores import ImageScores, read_scores
from fedgrain.studies.methods import Skew
from fedgrain.studies.planned_runs import cell_runs
from fedgrain.studies.study import Study
from fedgrain.studies.study_file import read_study
from fedgrain.studies.study_folder import StudyFolder
from fedgrain.tables.intervals import Estimate, estimate

_SKEW_METRICS = {"hr": "HR", "hp": "HP", "hf": "HF"}
_ZERO_SHOT_METRICS = {"seen_hf": "seen HF", "unseen_hf": "unseen HF"}
Key = tuple[str, str, Skew]  # data set, method, alpha


@dataclass(frozen=True)
class Results:
    """Scores by (data set, method, alpha), then by metric, then by seed."""

    study: Study
    scores: Mapping[Key, Mapping[str, Mapping[int, float]]]
    missing: int  # cells of the grid without a result
    cut_short: int = 0  # runs that ended at a lower limit than the study has now
    # Of real sites: the scores on each test image by seed, a model per site for local-only.
    by_image: Mapping[Key, Mapping[int, list[ImageScores]]] = field(default_factory=dict)

    def left(self) -> list[str]:
        """Return what is still missing of the study; empty if it is complete."""
        lines = []
        if self.missing:
            lines.append(f"{self.missing} cells of the grid have no result yet")
        if self.cut_short:
            lines.append(
                f"{self.cut_short} runs ended at an earlier, lower limit of rounds or cycles; "
                "run the study again to continue them"
            )
        return lines

    @property
    def metrics(self) -> dict[str, str]:
        """Names of the columns by metric."""
        return _ZERO_SHOT_METRICS if self.study.zero_shot else _SKEW_METRICS

    def by_seed(self, dataset: str, method: str, alpha: Skew, metric: str) -> Mapping[int, float]:
        """Return a metric of every finished seed."""
        return self.scores.get((dataset, method, alpha), {}).get(metric, {})

    def estimate(self, dataset: str, method: str, alpha: Skew, metric: str) -> Estimate | None:
        """Return mean and interval over the finished seeds; None if none is finished."""
        values = self.by_seed(dataset, method, alpha, metric)
        return estimate(list(values.values())) if values else None

    def difference(
        self, dataset: str, method: str, other: str, alpha: Skew, metric: str
    ) -> Estimate | None:
        """Return the mean difference of two methods over the seeds that both finished."""
        mine = self.by_seed(dataset, method, alpha, metric)
        theirs = self.by_seed(dataset, other, alpha, metric)
        common = [mine[seed] - theirs[seed] for seed in mine if seed in theirs]
        return estimate(common) if common else None


def read_results(folder: str | Path) -> Results:
    """Read the results of a study's finished runs; local-only is the mean over its clients."""
    place = StudyFolder(folder)
    if not place.study.exists():
        raise StudyError(f"{folder}: no study here (there is no {place.study.name})")
    study = read_study(place.study)
    rates = place.rates() if study.search else {}
    metrics = _ZERO_SHOT_METRICS if study.zero_shot else _SKEW_METRICS
    scores: dict[Key, dict[str, dict[int, float]]] = {}
    by_image: dict[Key, dict[int, list[ImageScores]]] = {}
    missing, cut_short = 0, set[str]()
    for dataset, method, alpha, seed in product(
        study.datasets, study.methods, study.skews, study.seeds
    ):
        names = cell_runs(study, dataset, method, alpha, seed, rates)
        found = [_finished(place.runs / name) for name in names]
        values = [one for one in found if one is not None]
        if len(values) < len(found):
            missing += 1
            continue
        cut_short |= {n for n, c in names.items() if RunFolder(place.runs / n).cut_short(c)}
        tested = read_scores(place, list(names)) if study.own_sites else None
        if tested is not None:
            by_image.setdefault((dataset, method, alpha), {})[seed] = tested
        for metric in metrics:
            by_seed = scores.setdefault((dataset, method, alpha), {}).setdefault(metric, {})
            if all(one.get(metric) is not None for one in values):
                by_seed[seed] = fmean(one[metric] for one in values)
    return Results(study, scores, missing, len(cut_short), by_image)


def run_folders(
    folder: str | Path, study: Study, dataset: str, method: str, alpha: Skew, seed: int
) -> list[RunFolder]:
    """Return the run folders of one cell of a study."""
    place = StudyFolder(folder)
    names = cell_runs(study, dataset, method, alpha, seed, place.rates())
    return [RunFolder(place.runs / name) for name in names]


def _finished(path: Path) -> dict[str, Any] | None:
    place = RunFolder(path)
    return place.read_result() if place.result.exists() else None


@cache
def paper_figures(zero_shot: bool = False) -> dict[Key, dict[str, tuple[float, float]]]:
    """Return the paper's means and intervals by (data set, method, alpha), then by metric."""
    name = "paper_zero_shot_results.csv" if zero_shot else "paper_skew_results.csv"
    text = (files("fedgrain.tables") / "resources" / name).read_text("utf-8")
    columns = (
        {"seen_hf": ("seen_h_f", "seen_ci95"), "unseen_hf": ("unseen_h_f", "unseen_ci95")}
        if zero_shot
        else {
            "hr": ("h_recall", "h_recall_ci95"),
            "hp": ("h_precision", "h_precision_ci95"),
            "hf": ("h_f", "h_f_ci95"),
        }
    )
    figures: dict[Key, dict[str, tuple[float, float]]] = {}
    for row in csv.DictReader(text.splitlines()):
        key = (row["dataset"], f"{row['method']}/paper", float(row.get("alpha") or 0.0))
        figures[key] = {
            metric: (float(row[mean]), float(row[interval]))
            for metric, (mean, interval) in columns.items()
        }
    return figures

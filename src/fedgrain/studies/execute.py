"""Run a study: the search of learning rates, then every run of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrain.checked_json import write_checked_json
from fedgrain.files import remove_parts, write_text
from fedgrain.runs.lock import exclusive
from fedgrain.studies.image_scores import score_runs
from fedgrain.studies.own_sites import with_sites
from fedgrain.studies.planned_runs import plan_runs, selected
from fedgrain.studies.rate_search import search_rates
from fedgrain.studies.scheduling import Outcome, StudyProgress, run_all
from fedgrain.studies.study import Study
from fedgrain.studies.study_folder import Rates, StudyFolder, check_folder

if TYPE_CHECKING:
    from fedgrain.runs.tracking import Tracking


def run_study(
    study: Study,
    folder: str | Path,
    executor: Executor,
    progress: StudyProgress,
    tracking: Tracking | None = None,
    only: Sequence[str] = (),
) -> Outcome:
    """Run the missing runs of a study; a failed run does not stop the others.

    ``only`` are patterns of run names: other runs are skipped. Tracking, if asked for, covers the
    runs of the grid but not those of the search.
    """
    study = with_sites(study.complete())
    place = StudyFolder(folder)
    check_folder(study, place)
    selected(plan_runs(study, {}), only)  # refuse a pattern that matches nothing before any run
    place.path.mkdir(parents=True, exist_ok=True)
    with exclusive(place.lock):
        remove_parts(place.path, [f.name for f in (place.study, place.search, place.failures)])
        write_text(place.study, study.toml())
        rates: Rates = {}
        if study.search:
            rates, outcome = search_rates(study, place, executor, progress)
            if outcome.failures:
                write_checked_json(place.failures, dict(outcome.failures))
                return outcome
        outcome = run_all(
            selected(plan_runs(study, rates), only),
            place.runs,
            executor,
            progress,
            "runs",
            tracking,
        )
        if study.own_sites:
            score_runs(plan_runs(study, rates), place, progress)
        place.failures.unlink(missing_ok=True)
        if outcome.failures:
            write_checked_json(place.failures, dict(outcome.failures))
    return outcome

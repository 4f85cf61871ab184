"""A user's own code in a study, tried before a folder is told of the methods that name it."""

from __future__ import annotations

from fedgrain.federated.algorithm import build_algorithm
from fedgrain.preparation.prepare import prepare
from fedgrain.runs.engine_choice import trainer_of
from fedgrain.studies.own_sites import with_sites
from fedgrain.studies.study import Study
from fedgrain.studies.study_file import read_study
from fedgrain.studies.study_folder import StudyFolder


def check_own_code(study: Study, place: StudyFolder) -> None:
    """Build the user's own code in the methods that are new here as a run will; refuse what fails.

    The methods of a folder are never removed, so one that cannot run would fail there for ever.
    """
    if not study.code():
        return
    study = with_sites(study.complete())
    before = read_study(place.study).methods if place.study.exists() else ()
    tried = set()
    for method in study.methods:
        config, *_ = study.configs(study.datasets[0], method, study.skews[0], study.seeds[0])
        code = frozenset(config.code())
        if method in before or not code or code in tried:
            continue
        tried.add(code)
        prepared = prepare(config)
        build_algorithm(config.algorithm, prepared.settings)
        trainer_of(prepared, 1, "cpu")

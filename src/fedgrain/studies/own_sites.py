"""The user's own sites in a study: who they are."""

from __future__ import annotations

from dataclasses import replace

from fedgrain.config.by_data import completed
from fedgrain.errors import StudyError
from fedgrain.preparation.prepare import load_images
from fedgrain.studies.methods import parse_method
from fedgrain.studies.study import Study


def with_sites(study: Study) -> Study:
    """Return the study with the names of the manifest's clients, if it trains each of them alone.

    The data is loaded for it, so the runs find the decoded images in the cache.
    """
    alone = [name for name in study.methods if parse_method(name).bound == "local-only"]
    if not study.own_sites or study.sites or not alone:
        return study
    found = {}
    for dataset in study.datasets:
        (config, *_) = study.configs(dataset, alone[0], study.skews[0], study.seeds[0])
        found[dataset] = load_images(completed(config)).client_names
    names = next(iter(found.values()))
    if not names:
        raise StudyError(
            f"{study.datasets[0]}: the manifest names no clients, so none can train alone; add a "
            "column 'client'"
        )
    if any(others != names for others in found.values()):
        raise StudyError("the data sets have different clients; make a study of each")
    return replace(study, sites=names)

"""The search of learning rates that comes before a study (method, section 10).

At alpha 0 every label is a leaf and all supervisions of a head are the same loss, so `paper` stands
for them all, and the bounds take the rate of their head. An algorithm of two stages takes the rate
of its head for the first; what is searched for it is the rate of the second. A candidate at which
training diverges for any seed is excluded.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from itertools import product
from statistics import fmean
from typing import Any

from fedgrain import catalogue
from fedgrain.checked_json import write_checked_json
from fedgrain.config.config import Config
from fedgrain.errors import StudyError
from fedgrain.studies.methods import parse_method, rate_owner
from fedgrain.studies.planned_runs import linked, run_name
from fedgrain.studies.scheduling import Outcome, StudyProgress, run_all
from fedgrain.studies.study import Study, rate_setting
from fedgrain.studies.study_folder import Rates, StudyFolder


def search_rates(
    study: Study, place: StudyFolder, executor: Executor, progress: StudyProgress
) -> tuple[Rates, Outcome]:
    """Find the rates by mean validation HF over the search seeds; write ``search.json``."""
    rates: Rates = {dataset: {} for dataset in study.datasets}
    tables: dict[str, dict[str, Any]] = {dataset: {} for dataset in study.datasets}
    before = _tables_before(place)
    everything, earlier = Outcome(), dict[str, Config]()
    for setting, searched in _stages(study):
        configs = {
            f"{run_name(config)}-{setting}{value:g}": config
            for dataset, one, value, seed in product(
                study.datasets, searched, study.tried(setting), study.search_seeds
            )
            for config in [study.search_config(dataset, one, seed, setting, value, rates[dataset])]
        }
        known = _found_before(before, configs, setting)
        planned = [
            run
            for run in linked({**earlier, **configs})
            if run.name in configs and run.name not in known
        ]
        outcome = run_all(planned, place.search_runs, executor, progress, f"search of {setting}")
        everything.values |= outcome.values
        everything.failures |= {
            name: reason
            for name, reason in outcome.failures.items()
            if name not in outcome.diverged
        }
        if everything.failures:
            return rates, everything
        earlier |= configs
        known |= {name: values["validation_hf"] for name, values in outcome.values.items()}
        for dataset, one in product(study.datasets, searched):
            scores = _scores(configs, known, dataset, one, setting)
            tables[dataset][one] = _settled(scores, setting, f"{dataset}, {one}")
            head = catalogue.algorithm(one).head  # its first stage uses this head's rate
            start = rates[dataset][head] if head else {}
            rates[dataset][one] = {**start, setting: tables[dataset][one]["best"]}
    write_checked_json(place.search, {"rates": rates, "tables": tables})
    return rates, everything


def runs_to_search(study: Study, place: StudyFolder) -> int:
    """Return how many runs the search takes that the folder does not have the scores of."""
    before = _tables_before(place)
    tried = {
        (dataset, one, value, seed)
        for setting, searched in (_stages(study) if study.search else ())
        for dataset, one, value, seed in product(
            study.datasets, searched, study.tried(setting), study.search_seeds
        )
    }
    return sum(
        str(seed) not in _by_seed(before, dataset, one, value)
        for dataset, one, value, seed in tried
    )


def _stages(study: Study) -> list[tuple[str, list[str]]]:
    """Return what is searched in turn: a setting, and the heads or algorithms that have it."""
    methods = [parse_method(name) for name in study.methods]
    heads = list(dict.fromkeys(method.head for method in methods))
    staged = dict.fromkeys(method.searched_as for method in methods if method.staged)
    return [("lr", heads), *((rate_setting(name), [name]) for name in staged)]


def _tables_before(place: StudyFolder) -> Mapping[str, Any]:
    """Return what an earlier search in this folder found."""
    tables: Mapping[str, Any] = place.read_search()["tables"] if place.search.exists() else {}
    return tables


def _by_seed(
    tables: Mapping[str, Any], dataset: str, searched: str, value: float
) -> Mapping[str, float | None]:
    """Return the scores of a candidate by seed; None where training diverged."""
    table = tables.get(dataset, {}).get(searched, {}).get("validation_hf", {})
    by_seed: Mapping[str, float | None] = table.get(f"{value:g}", {})
    return by_seed


def _found_before(
    tables: Mapping[str, Any], configs: Mapping[str, Config], setting: str
) -> dict[str, float | None]:
    """Return what an earlier search in this folder found, by run; None where training diverged."""
    found = {}
    for name, config in configs.items():
        value = getattr(config, setting)
        by_seed = _by_seed(tables, config.dataset, _searched(config), value)
        if str(config.seed) in by_seed:
            found[name] = by_seed[str(config.seed)]
    return found


def _searched(config: Config) -> str:
    return rate_owner(config.algorithm, config.head or "")


def _scores(
    configs: Mapping[str, Config],
    known: Mapping[str, float | None],
    dataset: str,
    searched: str,
    setting: str,
) -> dict[float, dict[str, float | None]]:
    """Return validation HF by candidate, then by seed; None where training diverged."""
    scores: dict[float, dict[str, float | None]] = {}
    for name, config in configs.items():
        if (config.dataset, _searched(config)) == (dataset, searched):
            by_seed = scores.setdefault(getattr(config, setting), {})
            by_seed[str(config.seed)] = known.get(name)
    return scores


def _settled(
    scores: Mapping[float, Mapping[str, float | None]], setting: str, what: str
) -> dict[str, Any]:
    """Return the candidate with the best mean; among equals, the smallest."""
    means: dict[float, float | None] = {}
    for value, by_seed in sorted(scores.items()):
        finite = [score for score in by_seed.values() if score is not None]
        means[value] = fmean(finite) if len(finite) == len(by_seed) else None
    standing = {value: mean for value, mean in means.items() if mean is not None}
    if not standing:
        raise StudyError(
            f"{what}: training diverged at every candidate for {setting}; add lower values"
        )
    return {
        "setting": setting,
        "best": max(standing, key=standing.__getitem__),
        "mean_validation_hf": {f"{value:g}": mean for value, mean in means.items()},
        "validation_hf": {f"{value:g}": dict(scores[value]) for value in means},
    }

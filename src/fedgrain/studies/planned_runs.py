"""The runs of a study: their names, their configs, and which starts from which."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from fedgrain import catalogue
from fedgrain.config.config import Config
from fedgrain.errors import StudyError
from fedgrain.studies.methods import Skew, is_simulated, method_name, parse_method, skew_name
from fedgrain.studies.study import Study


@dataclass(frozen=True)
class PlannedRun:
    """One run: its folder, its config, and the run whose first stage it shares."""

    name: str
    config: Config
    after: str | None = None


def plan_runs(
    study: Study, rates: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> list[PlannedRun]:
    """Return every run of the grid once; runs that others start from come first.

    ``rates`` holds the learning rates found per data set and head. Cells with the same config are
    one run: the oracle is the run at alpha 0.
    """
    configs: dict[str, Config] = {}
    grid = product(study.seeds, study.datasets, study.skews, study.methods)
    for seed, dataset, alpha, method in grid:
        for name, config in cell_runs(study, dataset, method, alpha, seed, rates).items():
            configs.setdefault(name, config)
    return linked(configs)


def selected(planned: Sequence[PlannedRun], only: Sequence[str]) -> list[PlannedRun]:
    """Return the runs that match a pattern, in the order of the patterns; all without patterns.

    A run goes after the run it starts from, if that is selected as well.
    """
    if not only:
        return list(planned)
    chosen = {
        run.name: run
        for pattern in only
        for run in planned
        if fnmatch.fnmatchcase(run.name, pattern)
    }
    if not chosen:
        raise StudyError(
            f"no run of the study matches {' or '.join(only)}; --dry-run lists the names"
        )
    return list(chosen.values())


def cell_runs(
    study: Study,
    dataset: str,
    method: str,
    alpha: Skew,
    seed: int,
    rates: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> dict[str, Config]:
    """Return the runs of a cell by name, with the learning rates found for its method."""
    parsed = parse_method(method)
    found = rates.get(dataset, {}).get(parsed.searched_as)
    configs = study.configs(dataset, parsed, alpha, seed, found)
    return {run_name(config, parsed.variant): config for config in configs}


def linked(configs: Mapping[str, Config]) -> list[PlannedRun]:
    """Let each two-stage run start from the run that equals its first stage, if there is one."""
    whole = {
        _first_stage(config): name
        for name, config in configs.items()
        if catalogue.algorithm(config.algorithm).begins_with is None
    }
    runs = []
    for name, config in configs.items():
        staged = catalogue.algorithm(config.algorithm).begins_with is not None
        runs.append(PlannedRun(name, config, whole.get(_first_stage(config)) if staged else None))
    return sorted(runs, key=lambda run: run.after is not None)


def _first_stage(config: Config) -> Config:
    """Return the config of an algorithm's first stage, with later settings at their defaults."""
    later = {name for entry in catalogue.ALGORITHMS.values() for name in entry.own_settings}
    return replace(
        config,
        **{name: getattr(Config, name) for name in sorted(later)},
        algorithm=catalogue.algorithm(config.algorithm).begins_with or config.algorithm,
        supervision=config.first_stage_supervision or config.supervision,
        first_stage_supervision=None,
    )


def run_name(config: Config, variant: str = "") -> str:
    """Return the name of a run's folder: the settings that distinguish the runs of a study."""
    parts = [config.dataset, *method_name(config).rsplit("/", 1)]
    skew = skew_name(config.alpha if is_simulated(config.knowledge) else None).replace(" ", "")
    parts += [variant] * bool(variant) + [skew] * bool(skew)
    parts += ["zero-shot"] * config.zero_shot + ["centralised"] * config.pooled
    parts += [] if config.only_client is None else [f"client{config.only_client}"]
    return safe_name("-".join([*parts, f"seed{config.seed}"]))


def safe_name(text: str) -> str:
    """Return a file name: anything but letters, digits and -._ becomes a dash."""
    return "".join(sign if sign.isalnum() or sign in "-._" else "-" for sign in text)

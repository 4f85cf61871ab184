"""The settings of the runs of a study, and the commands that make it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fedgrain.checked_json import read_checked_json
from fedgrain.pages.page import settings_sheet
from fedgrain.pages.page_tables import Sheet, setting, sheet
from fedgrain.pages.redo import run_command, study_command
from fedgrain.runs.run_folder import RunFolder
from fedgrain.studies.methods import method_name
from fedgrain.studies.planned_runs import PlannedRun
from fedgrain.studies.study_folder import Rates, StudyFolder
from fedgrain.tables.collect import Results


def settings_sheets(
    planned: Sequence[PlannedRun],
    values: Mapping[str, Mapping[str, Any]],
    place: StudyFolder,
    rates: Rates,
    results: Results,
) -> tuple[Sheet, ...]:
    """Return every run with the settings in which runs differ, and the common ones once."""
    configs = {run.name: asdict(run.config) for run in planned}
    names = list(next(iter(configs.values())))
    differing = [n for n in names if len({repr(config[n]) for config in configs.values()}) > 1]
    failures = read_checked_json(place.failures) if place.failures.exists() else {}
    rows = []
    for run in planned:
        found, own = values.get(run.name), configs[run.name]
        ended = f"failed: {failures[run.name]}" if run.name in failures else "open"
        status = "finished" if found else ended
        scores = [found.get(m) if found else None for m in (*results.metrics, "validation_hf")]
        took = [found.get(m) if found else None for m in ("rounds", "cycles", "seconds")]
        settings = [setting(own[n]) for n in differing]
        rows.append((run.name, method_name(run.config), *settings, *scores, *took, status))
    shown = (*results.metrics.values(), "validation HF", "rounds", "cycles", "seconds", "status")
    runs = sheet("Every run", ("run", "method", *differing, *shown), rows)
    study = results.study
    without = {*differing, *["alpha"] * (not study.simulated), *["clients"] * study.own_sites}
    common = {n: v for n, v in next(iter(configs.values())).items() if n not in without}
    sheets = [runs, settings_sheet("Settings of every run", common)]
    if rates:
        found_rates = [
            (dataset, head, name, setting(value))
            for dataset, heads in rates.items()
            for head, rate in heads.items()
            for name, value in rate.items()
        ]
        columns = ("data set", "head", "setting", "value")
        sheets.insert(1, sheet("Learning rates found by the search", columns, found_rates))
    return tuple(sheets)


def redo_commands(
    results: Results, place: StudyFolder, looked_at: RunFolder | None
) -> tuple[tuple[str, str], ...]:
    """Return the commands by what they make again: the study, and the run looked at."""
    study = results.study
    runs = [] if looked_at is None else [looked_at]
    again = study_command(place.study, study.name, bool(study.code()), runs)
    commands = [("The whole study again", again)]
    if looked_at is not None:
        one = run_command(looked_at, bool(study.code()), f"again/{looked_at.path.name}")
        commands.append(("One run again", one))
    return tuple(commands)

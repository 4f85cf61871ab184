"""The order of a study's runs: each after the run it starts from, a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedgrain.errors import DivergedError, FedgrainError
from fedgrain.runs.run_folder import RunFolder
from fedgrain.studies.executors import absolute, run_job
from fedgrain.studies.planned_runs import PlannedRun

if TYPE_CHECKING:
    from fedgrain.runs.tracking import Tracking


class StudyProgress(Protocol):
    """Shows the progress of a study, for example as a tqdm bar."""

    def start(self, what: str, total: int, done: int) -> None:
        """Start a batch of runs, of which some are already finished."""

    def finished(self, name: str, problem: str | None) -> None:
        """Record a run that ended."""


@dataclass
class Outcome:
    """Results by run name, and what went wrong."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    diverged: set[str] = field(default_factory=set)  # the failures that diverged


def run_all(
    planned: Sequence[PlannedRun],
    folder: Path,
    executor: Executor,
    progress: StudyProgress,
    what: str,
    tracking: Tracking | None = None,
) -> Outcome:
    """Run all unfinished runs, each after the run it starts from.

    When a run ends, the runs that start from it go next: second stages take longest, and at the
    end they would leave other cores idle. So an executor with a limit ``at_a_time`` is given no
    more jobs than that at once.
    """
    outcome = Outcome()
    for run in planned:
        place = RunFolder(folder / run.name)
        if place.result.exists():
            place.check(run.config)
        if place.finished(run.config):
            outcome.values[run.name] = place.read_result()
    progress.start(what, len(planned), len(outcome.values))
    names = {run.name for run in planned}
    open_runs = [run for run in planned if run.name not in outcome.values]
    going: dict[Future[dict[str, Any]], str] = {}
    while open_runs or going:
        ended = {*outcome.values, *outcome.failures}
        ready = [
            r for r in open_runs if r.after is None or r.after in ended or r.after not in names
        ]
        ready.sort(key=lambda run: run.after not in ended)
        ready = ready[: getattr(executor, "at_a_time", len(planned)) - len(going)]
        open_runs = [run for run in open_runs if run not in ready]
        for run in ready:
            base = None if run.after is None else absolute(folder / run.after)
            job = executor.submit(run_job, run.config, absolute(folder / run.name), base, tracking)
            going[job] = run.name
        done, _ = wait(going, return_when=FIRST_COMPLETED)
        for job in sorted(done, key=going.__getitem__):
            name = going.pop(job)
            error = job.exception()
            if error is None:
                outcome.values[name] = job.result()
            else:
                outcome.failures[name] = _sentence(error)
                if isinstance(error, DivergedError):
                    outcome.diverged.add(name)
            progress.finished(name, outcome.failures.get(name))
    return outcome


def _sentence(error: BaseException) -> str:
    return str(error) if isinstance(error, FedgrainError) else f"{type(error).__name__}: {error}"

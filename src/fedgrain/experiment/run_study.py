"""Work a study off: the search of learning rates, then every run of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from fedgrain.checksums import read_checked
from fedgrain.errors import DivergedError, FedgrainError, StudyError
from fedgrain.experiment.folder import CAPS, RunFolder, exclusive, write_json
from fedgrain.experiment.study import MAY_GROW, PlannedRun, Study, plan_runs, read_study, selected
from fedgrain.experiment.workers import absolute, run_job
from fedgrain.files import parts_of, remove_parts, write_text

if TYPE_CHECKING:
    from fedgrain.experiment.tracking import Tracking

SEARCHED = ", which the search had as well and cannot change after it"
Rates = dict[str, dict[str, dict[str, float]]]  # data set -> head or algorithm -> setting -> value


class StudyFolder:
    """Paths of one study."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.study = self.path / "study.toml"
        self.runs = self.path / "runs"
        self.search_runs = self.path / "search"
        self.search = self.path / "search.json"
        self.failures = self.path / "failures.json"
        self.lock = self.path / ".lock"

    def rates(self) -> Rates:
        """Return the learning rates that were found, none without a search."""
        if not self.search.exists():
            return {}
        return cast(Rates, self.read_search()["rates"])

    def read_search(self) -> dict[str, Any]:
        """Read what a search found."""
        again = "remove the file to search again"
        found, _ = read_checked(self.search, again, StudyError)
        for part, levels in (("rates", 3), ("tables", 2)):
            if not _nested(found.get(part), levels):
                raise StudyError(f"{self.search}: {part} is missing or damaged; {again}")
        of_heads = [table for by_head in found["tables"].values() for table in by_head.values()]
        if not all(_nested(table.get("validation_hf"), 2) for table in of_heads):
            raise StudyError(f"{self.search}: tables is missing or damaged; {again}")
        return found


def _nested(content: Any, levels: int) -> bool:
    """Tell whether content is objects to a depth, and numbers or nothing below them if there."""
    if levels == 0:
        return isinstance(content, dict | float | int | None)
    return isinstance(content, dict) and all(_nested(c, levels - 1) for c in content.values())


class Progress(Protocol):
    """What shows how far a study is; a tqdm bar is one."""

    def start(self, what: str, total: int, done: int) -> None:
        """Begin a batch of runs, of which some are finished already."""

    def finished(self, name: str, problem: str | None) -> None:
        """Take note of a run that ended."""


@dataclass
class Outcome:
    """Results by run name, and what went wrong."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    diverged: set[str] = field(default_factory=set)  # those of the failures


def run_study(
    study: Study,
    folder: str | Path,
    executor: Executor,
    progress: Progress,
    tracking: Tracking | None = None,
    only: Sequence[str] = (),
) -> Outcome:
    """Run what is missing of a study; a run that fails does not stop the others.

    ``only`` are patterns of run names: the rest of the grid is left for another time. The runs of
    the grid are tracked where asked, those of the search are not.
    """
    from fedgrain.experiment.search import search_rates

    study = study.complete()
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
                write_json(place.failures, dict(outcome.failures))
                return outcome
        outcome = work_off(
            selected(plan_runs(study, rates), only),
            place.runs,
            executor,
            progress,
            "runs",
            tracking,
        )
        place.failures.unlink(missing_ok=True)
        if outcome.failures:
            write_json(place.failures, dict(outcome.failures))
    return outcome


def check_folder(study: Study, place: StudyFolder) -> None:
    """Refuse the folder of another study; the same one's grid, rounds and cycles may grow."""
    if not place.study.exists():
        parts = parts_of(place.path, [place.study.name]) if place.path.exists() else []
        strangers = sorted(p.name for p in place.path.glob("*") if p not in (place.lock, *parts))
        if strangers:
            raise StudyError(
                f"{place.path}: the folder is not empty and not a study ({strangers[0]}); "
                "choose a new folder"
            )
        return
    before = read_study(place.study).complete()
    for name in vars(before):
        old, new = getattr(before, name), getattr(study, name)
        if name in ("settings", "search_settings", "method_settings"):
            both = sorted({*old, *new})
            grown = {n for n in CAPS if name == "settings" and new[n] > old[n]}
            searched = grown.difference(study.search_settings) if study.search else set()
            differing = [
                f"{n} ({old.get(n)} and {new.get(n)}{SEARCHED if n in searched else ''})"
                for n in both
                if old.get(n) != new.get(n) and n not in grown - searched
            ]
        elif name in MAY_GROW:
            differing = [f"{name} without {value}" for value in old if value not in new]
        else:
            differing = [f"{name} ({old} and {new})"] if old != new else []
        if differing:
            raise StudyError(
                f"{place.path}: the folder holds a study with other settings: "
                f"{', '.join(differing)}; choose another folder: only the grid, the rounds and "
                "the cycles may grow"
            )


def work_off(
    planned: Sequence[PlannedRun],
    folder: Path,
    executor: Executor,
    progress: Progress,
    what: str,
    tracking: Tracking | None = None,
) -> Outcome:
    """Run all that are not finished, each after the run it starts from.

    What goes on from a run comes next when that has ended: second stages are the longest, and left
    to the end they would keep one core busy alone. So an executor that says how many jobs it does
    ``at_a_time`` is given no more than those.
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
                outcome.failures[name] = _told(error)
                if isinstance(error, DivergedError):
                    outcome.diverged.add(name)
            progress.finished(name, outcome.failures.get(name))
    return outcome


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, FedgrainError) else f"{type(error).__name__}: {error}"

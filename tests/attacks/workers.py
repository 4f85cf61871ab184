"""Cases run in forked workers, each in a scratch folder of its own; what came of them is counted.

A worker that dies counts against the case it was at.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import select
import shutil
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attacks import harness
from attacks.harness import Case, CrashedError, TimeUp, WrongError


@dataclass
class Tally:
    """How an attack went."""

    attack: str
    planned: int = 0
    survived: int = 0
    wrong: int = 0
    tracebacks: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def tries(self) -> int:
        return self.survived + self.wrong + self.tracebacks

    def count(self, name: str, verdict: str, note: str) -> None:
        setattr(self, verdict, getattr(self, verdict) + 1)
        if verdict != "survived":
            self.notes.append(f"{verdict}: {name}: {note}")


def run_cases(
    attack: str, cases: Sequence[Case], folder: Path, seconds: float, *, seed: int, jobs: int
) -> Tally:
    """Try the cases, shuffled by the seed, until all are done or the time is up."""
    order = list(cases)
    random.Random(f"{seed} {attack}").shuffle(order)
    tally = Tally(attack, len(order))
    end = time.monotonic() + seconds
    workers = [_Worker(order[number::jobs], folder / f"{attack.split()[0]}-{number}", end, tally)
               for number in range(jobs)]  # fmt: skip
    open_workers = list(workers)
    while open_workers:
        ready, _, _ = select.select(open_workers, [], [])
        for worker in ready:
            if not worker.read():
                open_workers.remove(worker)
    return tally


class _Worker:
    """A forked process that works off cases and tells of each through a pipe."""

    def __init__(self, cases: Sequence[Case], scratch: Path, end: float, tally: Tally) -> None:
        self.cases, self.scratch, self.end, self.tally = cases, scratch, end, tally
        self.next = 0
        self._start()

    def fileno(self) -> int:
        return self.pipe.fileno()

    def _start(self) -> None:
        read, write = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(read)
            code = 1
            try:
                with os.fdopen(write, "w", buffering=1) as told:
                    self._work(told)
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        self.pipe = os.fdopen(read)

    def _work(self, told: io.TextIOBase) -> None:
        signal.signal(signal.SIGALRM, _time_is_up)
        for case in self.cases[self.next :]:
            if time.monotonic() >= self.end:
                break
            told.write(json.dumps(_tried(case, self.scratch)) + "\n")

    def read(self) -> bool:
        """Take one line; False if there will be no more."""
        line = self.pipe.readline()
        if line:
            verdict, note = json.loads(line)
            self.tally.count(self.cases[self.next].name, verdict, note)
            self.next += 1
            return True
        status = os.waitpid(self.process, 0)[1]
        self.pipe.close()
        if status == 0:
            return False
        code = os.waitstatus_to_exitcode(status)
        self.tally.count(self.cases[self.next].name, "tracebacks", f"its process ended ({code})")
        self.next += 1
        self._start()
        return True


def _tried(case: Case, scratch: Path) -> tuple[str, str]:
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    signal.setitimer(signal.ITIMER_REAL, harness.CASE_SECONDS)
    try:
        with _in_folder(scratch):
            case.attempt(scratch)
    except WrongError as wrong:
        return "wrong", str(wrong)
    except CrashedError as crashed:
        return "tracebacks", str(crashed)
    except TimeUp:
        return "wrong", f"it hangs: no end after {harness.CASE_SECONDS} seconds"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "tracebacks", f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        shutil.rmtree(scratch, ignore_errors=True)
    return "survived", ""


def _time_is_up(*_: object) -> None:
    raise TimeUp


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def table(tallies: Sequence[Tally]) -> str:
    """Return the table that is printed at the end."""
    rows = [("attack", "tries", "survived", "wrong", "tracebacks")]
    for tally in tallies:
        tries = f"{tally.tries}" if tally.tries == tally.planned else (
            f"{tally.tries} of {tally.planned}"
        )  # fmt: skip
        counts = (tally.survived, tally.wrong, tally.tracebacks)
        rows.append((tally.attack, tries, *map(str, counts)))
    whole = [sum(getattr(t, name) for t in tallies)
             for name in ("tries", "survived", "wrong", "tracebacks")]  # fmt: skip
    rows.append(("all", *map(str, whole)))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["| " + " | ".join(f"{cell:<{widths[0]}}" if not column else f"{cell:>{widths[column]}}"
             for column, cell in enumerate(row)) + " |" for row in rows]  # fmt: skip
    rule = [
        "|" + "|".join("-" * (w + 1) + ("-" if not n else ":") for n, w in enumerate(widths)) + "|"
    ]
    return "\n".join([lines[0], *rule, *lines[1:]])

"""Kill fedgrain at every file event, let it go on, and compare with an undisturbed run.

A file event is an opening for writing, a rename, a removal, a new folder, a truncation, a lock, or
a sync; what Python does not tell of (writes in between) is what a sync finds written. At a sync
there is a second try: half of what was written since the last one is lost, as a power cut does.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attacks.harness import Case, WrongError, alone, command
from attacks.world import (
    ALGORITHMS,
    World,
    copied,
    differing,
    digest,
    outcome,
    run_study,
    study_outcome,
)

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
EVENTS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink",
          "fcntl.flock", "os.chmod", "os.utime")  # fmt: skip


@dataclass
class Killer:
    """Counts the file events below a folder, and kills this process at one of them."""

    below: Path
    at: int | None = None
    torn: bool = False
    events: list[str] = field(default_factory=list)
    synced: dict[int, int] = field(default_factory=dict)  # by inode: the size that is safe

    def install(self) -> None:
        """Watch from now on; there is no way back, so only in a process of its own."""
        sync = os.fsync
        for path in self.below.rglob("*"):  # what was there before has long been on the disk
            if path.is_file() and not path.is_symlink():
                state = path.stat()
                self.synced[state.st_ino] = state.st_size
        sys.addaudithook(self._hook)

        def fsync(file: Any) -> None:
            number = file if isinstance(file, int) else file.fileno()
            self._at_sync(number)
            sync(number)

        os.fsync = fsync

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[2], int) and args[2] & WRITING:
            self._reach(f"open {self._shown(args[0])}", args[0])
        elif event in EVENTS:
            self._reach(f"{event} {self._shown(args[0])}", args[0])

    def _shown(self, path: Any) -> str:
        return Path(os.fsdecode(path)).name if isinstance(path, str | bytes | os.PathLike) else "fd"

    def _reach(self, what: str, path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            place = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - pathlib opens things
            if not place.startswith(str(self.below)):
                return
        self.events.append(what)
        if len(self.events) - 1 == self.at and not self.torn:
            os.kill(os.getpid(), signal.SIGKILL)

    def _at_sync(self, number: int) -> None:
        name = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
        if not name.startswith(str(self.below)):
            return
        self.events.append(f"fsync {Path(name).name}")
        state = os.fstat(number)
        if len(self.events) - 1 == self.at:
            if self.torn and not os.path.isdir(name):  # noqa: PTH112
                safe = self.synced.get(state.st_ino, 0)
                os.truncate(name, safe + (state.st_size - safe) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        self.synced[state.st_ino] = state.st_size


@dataclass(frozen=True)
class Subject:
    """Something that writes files: how to do it in a folder, and what it came to."""

    name: str
    act: Callable[[Path], int]
    outcome: Callable[[Path], dict[str, Any]]
    prepare: Callable[[Path], object] = Path.mkdir


def cases(world: World) -> list[Case]:
    """Return a case per event of every subject."""
    found = []
    for subject in subjects(world):
        scratch = world.root / "kills" / subject.name
        scratch.mkdir(parents=True)
        expected = _undisturbed(subject, scratch)
        events = (scratch / "events").read_text().splitlines()
        for number, event in enumerate(events):
            for torn in (False, True) if event.startswith("fsync ") else (False,):
                how = "torn, killed" if torn else "killed"
                name = f"{subject.name}: {how} at event {number} ({event})"
                found.append(Case(name, _attempt(subject, number, torn, expected)))
    return found


def _undisturbed(subject: Subject, scratch: Path) -> dict[str, Any]:
    place, log = scratch / "place", scratch / "events"

    def counted() -> int:
        killer = Killer(place)
        killer.install()
        code = subject.act(place)
        events = list(killer.events)
        log.write_text("\n".join(events))
        return code

    subject.prepare(place)
    told = alone(counted)
    if told.code:
        raise SystemExit(f"{subject.name} does not work undisturbed: {told.err}")
    return subject.outcome(place)


def _attempt(
    subject: Subject, number: int, torn: bool, expected: dict[str, Any]
) -> Callable[[Path], None]:
    def attempt(scratch: Path) -> None:
        place = scratch / "place"
        subject.prepare(place)

        def killed() -> int:
            Killer(place, number, torn).install()
            return subject.act(place)

        first = alone(killed)
        if first.code != -signal.SIGKILL:
            raise WrongError(f"not killed, but ended with {first.code}: {first.err[-300:]!r}")
        second = alone(lambda: subject.act(place)).judged()
        if second.code:
            raise WrongError(f"does not go on: {second.err[-300:]!r}")
        found = subject.outcome(place)
        if found != expected:
            raise WrongError(f"goes on to another outcome: {', '.join(differing(found, expected))}")

    return attempt


def subjects(world: World) -> list[Subject]:
    """Return what is killed: runs, a study, a run that is allowed more rounds, the image cache."""
    found = [
        Subject(
            algorithm,
            lambda place, a=algorithm: command(*world.run_arguments(a, place / "run")),
            lambda place: {**outcome(place / "run"), "beside": names(place)},
        )
        for algorithm in ALGORITHMS
    ]

    def extend(place: Path) -> int:
        return command(*world.run_arguments("fedavg", place / "run"), "--rounds", "3")

    def decode(place: Path) -> int:
        os.environ["FEDGRAIN_CACHE"] = str(place / "cache")
        return command("data", "show", "--dataset", "folder", "--root", world.data, "--size", "16")

    return [
        *found,
        Subject("extended", extend, lambda place: outcome(place / "run"),
                lambda place: copied(world.root / "fedavg-run", place / "run")),
        Subject("study", lambda place: run_study(world.root / "study.toml", place / "study"),
                lambda place: study_outcome(place / "study")),
        Subject("cache", decode, lambda place: cache_outcome(place / "cache")),
    ]  # fmt: skip


def names(place: Path) -> list[str]:
    """Return what lies in a folder."""
    return sorted(path.name for path in place.iterdir())


def cache_outcome(cache: Path) -> dict[str, Any]:
    """Return the content of a cache, and how many things lie in it: nothing is to be left over."""
    arrays = sorted(cache.rglob("*.npy"))
    return {
        "arrays": [(path.name, digest(path)) for path in arrays],
        "files": sorted(p.suffix if p.name.startswith(".") else p.name for p in cache.rglob("*")),
    }

"""Damage every file of runs, a cache, a study and an app: one sentence, or the same outcome.

Each file has bits flipped, is cut, emptied, removed, and has a block of zeros put into it.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks.harness import Case, Told, WrongError, alone, as_command, called, command, fedgrain
from attacks.kills import Killer
from attacks.world import (
    ALGORITHMS,
    World,
    copied,
    differing,
    files_of,
    outcome,
    run_study,
    without_times,
)

FLIPS = 10  # of every file
SAYS_WHAT_IS_MISSING = "No closer look at the model of"
DAMAGES = (*["flip"] * FLIPS, "cut", "emptied", "removed", "zeros")


@dataclass(frozen=True)
class Subject:
    """A folder, and what is done with a copy of it; what that gives is compared."""

    name: str
    source: Path
    use: Callable[[Path], dict[str, Any]]


def cases(world: World, seed: int) -> list[Case]:
    """Return a case per damage of every file."""
    found = []
    for subject in subjects(world):
        place = world.root / "undamaged" / subject.name
        expected = subject.use(copied(subject.source, place))
        refused = [name for name, value in expected.items() if value is None]
        if refused:
            raise SystemExit(f"{subject.name}: {', '.join(refused)} do not work undamaged")
        for file in files_of(subject.source):
            inside = file.relative_to(subject.source)
            for number, damage in enumerate(DAMAGES):
                name = f"{subject.name}: {inside}: {damage} {number}"
                found.append(Case(name, _attempt(subject, inside, damage, name, seed, expected)))
    return found


def _attempt(
    subject: Subject, inside: Path, damage: str, name: str, seed: int, expected: dict[str, Any]
) -> Callable[[Path], None]:
    def attempt(scratch: Path) -> None:
        place = copied(subject.source, scratch / subject.name)
        spoil(place / inside, damage, random.Random(f"{seed} {name}"))
        for what, value in subject.use(place).items():
            if value is not None and value != expected[what]:
                parts = differing(value, expected[what]) if isinstance(value, dict) else []
                raise WrongError(f"{what} gives another result {' '.join(map(str, parts))}")

    return attempt


def spoil(file: Path, damage: str, rng: random.Random) -> None:
    """Damage a file in place, as a disk does: its times stay."""
    state = file.stat()
    content = bytearray(file.read_bytes())
    at = rng.randrange(len(content))
    if damage == "removed":
        file.unlink()
        return
    if damage == "flip":
        content[at] ^= 1 << rng.randrange(8)
    elif damage == "cut":
        del content[at:]
    elif damage == "emptied":
        content.clear()
    else:
        content[at : at + 64] = bytes(len(content[at : at + 64]))
        content[at] ^= 1  # the block may have been zeros
    file.write_bytes(content)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def subjects(world: World) -> list[Subject]:
    """Return what is damaged."""
    found = []
    for algorithm in ALGORITHMS:
        finished = world.root / f"{algorithm}-run"
        half = halted(world, algorithm)
        found.append(Subject(f"finished {algorithm}", finished, _finished(world, algorithm)))
        found.append(Subject(f"unfinished {algorithm}", half, _resumed(world, algorithm)))
    return [
        *found,
        Subject("cache", world.cache, _reading_images(world)),
        Subject("study", world.study, _studied(world)),
        Subject("app", world.federation / "app", _checked_app(world)),
    ]


def halted(world: World, algorithm: str) -> Path:
    """Return a run that was killed after its last state but one was written."""
    place, log = world.root / f"half-{algorithm}", world.root / f"{algorithm}.events"

    def listed() -> int:
        killer = Killer(world.root / "whole")
        killer.install()
        code = command(*world.run_arguments(algorithm, world.root / "whole" / algorithm))
        log.write_text("\n".join(list(killer.events)))
        return code

    alone(listed)
    events = log.read_text().splitlines()
    states = [n for n, event in enumerate(events) if event.startswith("os.rename .state")]

    def killed() -> int:
        Killer(place, states[-1]).install()
        return command(*world.run_arguments(algorithm, place))

    if alone(killed).code != -signal.SIGKILL:
        raise SystemExit("the run that should be half finished was not killed")
    return place


def told_json(told: Told) -> Any:
    """Return what a command printed as JSON, without times; None if it refused in a sentence."""
    if told.judged().code:
        return None
    return without_times(json.loads(told.out))


def _finished(world: World, algorithm: str) -> Callable[[Path], dict[str, Any]]:
    image = world.data / "7.png"

    def use(place: Path) -> dict[str, Any]:
        page = place.parent / "page.html"
        report = called(lambda: command("report", place, "--no-images", "--out", page)).judged()
        html = page.read_text().replace(str(place), "RUN") if report.code == 0 else None
        page.unlink(missing_ok=True)
        if html is not None and (SAYS_WHAT_IS_MISSING in html or not _surroundings(place)):
            html = None  # shorter, with the reason on the page; nothing else changes
        return {
            "predict": told_json(fedgrain("predict", place, image, "--json")),
            "evaluate": told_json(fedgrain("evaluate", place, "--json")),
            "report": html,
            "run": told_json(alone(lambda: command(*world.run_arguments(algorithm, place)))),
            "predict afterwards": told_json(fedgrain("predict", place, image, "--json")),
        }

    return use


def _surroundings(place: Path) -> bool:
    return (place / "environment.json").exists()


def _resumed(world: World, algorithm: str) -> Callable[[Path], dict[str, Any]]:
    def use(place: Path) -> dict[str, Any]:
        told = alone(lambda: command(*world.run_arguments(algorithm, place))).judged()
        if told.code:
            return {"run": None}
        try:
            return {"run": outcome(place)}
        except (OSError, ValueError) as error:
            raise WrongError(f"the run goes on and leaves a damaged file: {error}") from None

    return use


def _reading_images(world: World) -> Callable[[Path], dict[str, Any]]:
    def use(place: Path) -> dict[str, Any]:
        before = os.environ["FEDGRAIN_CACHE"]
        os.environ["FEDGRAIN_CACHE"] = str(place)
        try:
            told = called(lambda: as_command(lambda: print(_digest(world)))).judged()
        finally:
            os.environ["FEDGRAIN_CACHE"] = before
        if told.code:
            raise WrongError("a damaged cache is not made again")
        return {"images": told.out}

    return use


def _digest(world: World) -> str:
    import hashlib

    from fedgrain.data import load_dataset

    data = load_dataset("folder", root=world.data, size=16)
    parts = (data.images, data.labels, data.splits, data.clients)
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def told_table(place: Path) -> Any:
    """Return a study's table; None if it was refused, or says which runs it is without."""
    told = fedgrain("table", place, "--json")
    return told_json(told) if not told.judged().err else None


def _studied(world: World) -> Callable[[Path], dict[str, Any]]:
    def use(place: Path) -> dict[str, Any]:
        table = told_table(place)
        again = alone(lambda: run_study(world.root / "study.toml", place)).judged()
        afterwards = told_table(place) if again.code == 0 else None
        return {"table": table, "table afterwards": afterwards}

    return use


def _checked_app(world: World) -> Callable[[Path], dict[str, Any]]:
    def use(place: Path) -> dict[str, Any]:
        arguments = ("--app", place, "--images", world.data / "images.csv", "--site", "a")
        return {"check": told_json(fedgrain("flower", "check", *arguments, "--json"))}

    return use

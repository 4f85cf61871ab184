"""The folder of a run: what it was told, what it did, what it learned, how it ended."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from fedgrain import arithmetic, catalogue
from fedgrain.errors import RunError
from fedgrain.experiment.config import PLACES, Config, differences, read_config
from fedgrain.files import append_line, read_text, write_text

AGAIN = "copy the folder again, or run it again in a new one"
ROUND = {"stage", "round", "validation_hf", "clients", "faults"}  # what a line of metrics holds
CAPS = ("rounds", "cycles")  # which a run may be allowed more of
_SCORE = (float, int, type(None))
RESULT: dict[str, Any] = {  # what a result holds, whatever the method
    **dict.fromkeys(("hr", "hp", "hf", "accuracy", "validation_hf"), _SCORE),
    **dict.fromkeys(("rounds", "cycles"), int),
    "seconds": (float, int),
    "tested_on": (str, type(None)),
    "accuracy_per_depth": (list, type(None)),
    "untrained_branches": list,
}


class RunFolder:
    """Paths and small files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.toml"
        self.environment = self.path / "environment.json"
        self.metrics = self.path / "metrics.jsonl"
        self.state = self.path / "state.safetensors"
        self.best = self.path / "best.safetensors"
        self.model = self.path / "model.json"
        self.result = self.path / "result.json"
        self.faults = self.path / "faults.log"
        self.lock = self.path / ".lock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the lock ends with the process, however it ends.

        What was cut off while it was written is cleared away, and a folder that no run has claimed
        by the end is left as it was found.
        """
        new = [place for place in (self.path, *self.path.parents) if not place.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        with exclusive(self.lock):
            try:
                for part in self.path.glob(".*.part"):
                    part.unlink()
                yield
            finally:
                if not self.config.exists():
                    self.lock.unlink()
                    with suppress(OSError):  # somebody put something there
                        for place in new:
                            place.rmdir()

    def check(self, config: Config) -> None:
        """Refuse a folder that belongs to another config, or to something else.

        A config that only allows more rounds or cycles is the same run, gone on with.
        """
        if self.config.exists():
            different = differences(read_config(self.config), config)
            if different and not self._asks_for_more(config):
                raise RunError(
                    f"{self.path}: the folder holds a run with other settings: "
                    f"{', '.join(different)}; choose another folder or the same settings"
                )
            return
        ours = (self.lock.name, self.environment.name)  # killed between two files of claim()
        strangers = sorted(p.name for p in self.path.iterdir() if p.name not in ours)
        if strangers:
            raise RunError(
                f"{self.path}: the folder is not empty and not a run ({strangers[0]}); "
                "choose a new folder"
            )

    def check_data(self, fingerprint: str) -> None:
        """Refuse a folder whose run has seen other data; one of an older version does not tell."""
        before = self.data_seen()
        if before is not None and before != fingerprint:
            raise RunError(
                f"{self.path}: the folder holds a run on other images or labels than the data set "
                "has now; choose another folder, or give it the same data"
            )

    def data_seen(self) -> str | None:
        """Return the fingerprint of the data its run was made with."""
        return read_json(self.environment).get("data") if self.environment.exists() else None

    def check_arithmetic(self) -> None:
        """Refuse to go on in another arithmetic; a folder of an older version does not tell its."""
        if not (self.config.exists() and self.environment.exists()):
            return
        before = read_json(self.environment).get("arithmetic")
        problem = None if before is None else arithmetic.refusal(str(before))
        if problem:
            raise RunError(f"{self.path}: {problem}")

    def same_places(self, config: Config) -> bool:
        """Tell whether the data is looked for where the run in this folder found it."""
        before = read_config(self.config)
        return all(getattr(before, name) == getattr(config, name) for name in PLACES)

    def finished(self, config: Config) -> bool:
        """Tell whether the run has ended, and would have under this config."""
        return self.config.exists() and self.result.exists() and not self.cut_short(config)

    def cut_short(self, config: Config) -> bool:
        """Tell whether it ended at a cap of rounds or cycles that this config raises."""
        if not (self.config.exists() and self.result.exists()):
            return False
        before, ended = read_config(self.config), self.read_result()
        return any(getattr(config, cap) > getattr(before, cap) == ended[cap] for cap in CAPS)

    def _asks_for_more(self, config: Config) -> bool:
        before = read_config(self.config)
        caps = {cap: max(getattr(before, cap), getattr(config, cap)) for cap in CAPS}
        raised = replace(before, **caps)
        return bool(differences(before, raised)) and not differences(raised, config)

    def claim(self, config: Config, data: str | None = None) -> None:
        """Make the folder this config's, on data of a fingerprint, once ``config.toml`` is there.

        Where more rounds are allowed than before, the earlier end is none any more. Branches of
        a second stage that came after a first stage which the cap cut short begin again.
        """
        if self.config.exists():
            self.check_arithmetic()
            if self._asks_for_more(config):
                if self.result.exists() and not self.state.exists():
                    raise RunError(
                        f"{self.path}: the run ended at a cap, and there is no {self.state.name} "
                        "to go on from; take the rounds and cycles it had, or a new folder"
                    )
                self.result.unlink(missing_ok=True)
                self.model.unlink(missing_ok=True)
                if self._first_stage_goes_on(config):
                    self.state.unlink(missing_ok=True)
                write_text(self.config, config.toml())
            return
        try:
            write_json(self.environment, {**environment(), "data": data})
            write_text(self.config, config.toml())
        except BaseException:
            self.environment.unlink(missing_ok=True)
            raise

    def _first_stage_goes_on(self, config: Config) -> bool:
        cap, stages = read_config(self.config).rounds, [m["stage"] for m in self.metrics_lines()]
        entry = catalogue.algorithm(config.algorithm)
        first = entry.begins_with
        return entry.name in stages and config.rounds > cap == stages.count(first)

    def metrics_lines(self) -> list[dict[str, Any]]:
        """Return the rounds so far."""
        if not self.metrics.exists():
            return []
        lines = []
        for number, text in enumerate(read_text(self.metrics).splitlines(), start=1):
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                line = None
            if not isinstance(line, dict) or not line.keys() >= ROUND:
                raise RunError(f"{self.metrics}, line {number}: not a round of a run; {AGAIN}")
            lines.append(line)
        return lines

    def read_result(self) -> dict[str, Any]:
        """Read how the run ended."""
        values = read_json(self.result)
        for name, kinds in RESULT.items():
            if not isinstance(values.get(name, ...), kinds):
                raise RunError(f"{self.result}: {name} is missing or damaged; {AGAIN}")
        return values

    def keep_lines(self, count: int) -> None:
        """Drop what a killed run had written of a round that its state does not hold."""
        lines = read_text(self.metrics).splitlines() if self.metrics.exists() else []
        if len(lines) > count:
            write_text(self.metrics, "".join(f"{line}\n" for line in lines[:count]))

    def add_line(self, line: dict[str, Any]) -> None:
        """Append one round to ``metrics.jsonl``, all of it or nothing."""
        append_line(self.metrics, json.dumps(line))


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold a lock file, or say at once that another process does."""
    with _opened(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{lock.parent}: another process is running here; wait for it to end"
            ) from None
        if not lock.exists() or not os.path.samestat(os.fstat(file.fileno()), lock.stat()):
            raise RunError(f"{lock.parent}: another process was just here; try again")
        yield


def _opened(lock: Path) -> IO[str]:
    try:
        return lock.open("w")
    except FileNotFoundError:  # the folder went away in between
        raise RunError(f"{lock.parent}: another process was just here; try again") from None


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object whole or not at all."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read an object."""
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise RunError(f"{path}, line {error.lineno}: not JSON: {error.msg}; {AGAIN}") from None
    if not isinstance(content, dict):
        raise RunError(f"{path}: not a JSON object; {AGAIN}")
    return content


def environment() -> dict[str, Any]:
    """Return the versions and the machine a run was made with."""
    from importlib.metadata import version

    import torch

    packages = ("fedgrain", "numpy", "torch", "pillow", "safetensors")
    return {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "platform": platform.platform(),
        "processor": platform.machine(),
        "arithmetic": arithmetic.in_use(),
        "instructions": torch.backends.cpu.get_cpu_capability(),  # they decide the last bits
        "cores": os.cpu_count(),
    }

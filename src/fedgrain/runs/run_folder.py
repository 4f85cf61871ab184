"""The folder of a run: its settings, its rounds, its model and its result."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedgrain import arithmetic
from fedgrain.checked_json import AGAIN, read_checked_json, write_checked_json
from fedgrain.checksums import damaged, digest, read_checked, warn_unchecked
from fedgrain.config.config import PLACES, Config
from fedgrain.config.config_texts import differences, read_config
from fedgrain.config.defaults import as_begun
from fedgrain.errors import FedgrainError, RunError
from fedgrain.files import (
    append_line,
    parts_of,
    read_bytes,
    read_text,
    remove_parts,
    write_text,
)
from fedgrain.parsing import parse_json
from fedgrain.runs.going_on import (
    CAPS,
    asks_for_more,
    first_stage_goes_on,
    refuse_other_schedule,
)
from fedgrain.runs.label_files import digest_of_label_files
from fedgrain.runs.lock import exclusive
from fedgrain.tensor_files import about_of

_TRACKED = ("operation.json", "mlflow-run.txt", "wandb-run.txt")  # files of servers and trackers
_TRUNK = "trunk.weights"  # of a model with its trunk
_ROUND = {"stage", "round", "validation_hf", "clients", "faults"}  # keys of a line of metrics
LABEL_FILES = "label_files"  # in environment.json
OTHER_DATA = "choose another folder, or give it the same data"  # what to do about it
_SCORE = (float, int, type(None))
_RESULT: dict[str, Any] = {  # keys of every result
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
        self.again = self.path / ".again"  # the state is of a first stage that continues

    @property
    def written(self) -> list[str]:
        """Names of the files that are written whole."""
        files = (self.config, self.environment, self.metrics, self.state, self.best, self.model)
        return [path.name for path in (*files, self.result, self.again)] + [*_TRACKED, _TRUNK]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the lock ends with the process, however it ends.

        If no run has claimed the folder by the end, it is left as it was found.
        """
        new = [place for place in (self.path, *self.path.parents) if not place.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        had_lock = os.path.lexists(self.lock)
        with exclusive(self.lock):
            try:
                yield
            finally:
                if not self.config.exists() and not had_lock:
                    self.lock.unlink()
                    with suppress(OSError):  # someone else put a file there
                        for place in new:
                            place.rmdir()

    def check(self, config: Config, early: Sequence[str] = ()) -> None:
        """Refuse a folder that belongs to another config, or to something else.

        A config that only allows more rounds or cycles continues the same run. In a folder of ours,
        partly written files are removed. ``early``: files written before the claim.
        """
        if self.config.exists():
            different = differences(self.read_config(), config)
            if different and not asks_for_more(self.read_config(), config):
                raise RunError(
                    f"{self.path}: the folder holds a run with other settings: "
                    f"{', '.join(different)}; choose another folder or the same settings"
                )
            refuse_other_schedule(self.path, self.read_config(), config)
            remove_parts(self.path, self.written)
            return
        # killed between two files of claim(), or while one of them was written
        parts = parts_of(self.path, [self.environment.name, self.config.name, *early])
        ours = [self.lock.name, self.environment.name, *early, *(part.name for part in parts)]
        strangers = sorted(p.name for p in self.path.iterdir() if p.name not in ours)
        if strangers:
            raise RunError(
                f"{self.path}: the folder is not empty and not a run ({strangers[0]}); "
                "choose a new folder"
            )
        remove_parts(self.path, self.written)

    def read_config(self) -> Config:
        """Read the settings of the run and check that nobody has changed them."""
        self.check_config()
        return as_begun(read_config(self.config))

    def begun(self) -> Config | None:
        """Return the settings of the run that was begun here; None if there is none."""
        return self.read_config() if self.config.exists() else None

    def check_config(self) -> None:
        """Refuse settings that have changed since the run started."""
        checksum = self._surroundings().get("config_sha256")
        known = checksum if isinstance(checksum, list) else [checksum]
        if checksum is not None and digest([read_bytes(self.config)]) not in known:
            raise RunError(
                f"{self.config}: changed since the run started; restore it, or copy "
                "it elsewhere, change it there and run it in a new folder"
            )

    def _surroundings(self) -> dict[str, Any]:
        return read_checked_json(self.environment) if self.environment.exists() else {}

    def check_data(self, fingerprint: str, advice: str = OTHER_DATA) -> None:
        """Refuse a folder whose run used other data; older versions did not record it."""
        before = self.data_seen()
        if before is not None and before != fingerprint:
            raise RunError(
                f"{self.path}: the folder holds a run on other images or labels than the data set "
                f"has now; {advice}"
            )

    def data_seen(self) -> str | None:
        """Return the fingerprint of the data the run uses."""
        return self._surroundings().get("data")

    def label_files_changed(self, config: Config) -> bool:
        """Return whether manifest, taxonomy or knowledge file are others than the run began with.

        Quick, since it looks at no image. False where a file is gone, or was not recorded.
        """
        before, now = self._surroundings().get(LABEL_FILES), digest_of_label_files(config)
        return None not in (before, now) and before != now

    def computed_in(self) -> str | None:
        """Return the arithmetic of the run; None if an older version did not record it."""
        found = read_checked_json(self.environment).get("arithmetic")
        return None if found is None else str(found)

    def check_arithmetic(self) -> None:
        """Refuse to continue in another arithmetic; older versions did not record it."""
        if not (self.config.exists() and self.environment.exists()):
            return
        before = self.computed_in()
        problem = None if before is None else arithmetic.refusal(before)
        if problem:
            raise RunError(f"{self.path}: {problem}")

    def same_places(self, config: Config) -> bool:
        """Return whether the config has the same paths of data as the run in this folder."""
        before = self.read_config()
        return all(getattr(before, name) == getattr(config, name) for name in PLACES)

    def finished(self, config: Config) -> bool:
        """Return whether the run has ended and would have ended under this config."""
        return self.config.exists() and self.result.exists() and not self.cut_short(config)

    def cut_short(self, config: Config) -> bool:
        """Return whether it ended at a limit of rounds or cycles that this config raises."""
        if not (self.config.exists() and self.result.exists()):
            return False
        ended = self.read_result()
        before = ended.get("config") or self.read_config().settings()
        return any(getattr(config, cap) > before[cap] == ended[cap] for cap in CAPS)

    @property
    def ended(self) -> bool:
        """Whether the result belongs to the config: a continued run keeps its earlier result."""
        if not self.config.exists():
            return self.result.exists()
        return self.finished(self.read_config())

    def claim(self, config: Config, data: str | None = None) -> None:
        """Claim the folder for this config and data; it is claimed once ``config.toml`` exists.

        If the config allows more rounds than before, the run counts as unfinished; its model and
        result stay until new ones replace them. If the first stage had ended at its limit, the
        branches of the second stage start again.
        """
        if self.config.exists():
            if not self.environment.exists():  # it is written before the config
                raise RunError(
                    f"{self.environment}: missing, so the data of the run cannot be checked; "
                    f"{AGAIN}"
                )
            self.check_arithmetic()
            if asks_for_more(self.read_config(), config):
                if self.result.exists() and not self.state.exists():
                    raise RunError(
                        f"{self.path}: the run ended at its limit of rounds or cycles and has no "
                        f"{self.state.name} to continue from; keep the old limits, or choose a new "
                        "folder"
                    )
                stages = [line["stage"] for line in self.metrics_lines()]
                if first_stage_goes_on(self.read_config(), config, stages):
                    write_text(self.again, "")
                self._write_config(config, self._surroundings(), [read_bytes(self.config)])
            if self.again.exists():
                self.state.unlink(missing_ok=True)
                self.again.unlink()
            return
        from fedgrain.runs.environment import environment  # needs torch, a folder does not

        try:
            files = digest_of_label_files(config)
            about = {**environment(), "data": data, LABEL_FILES: files}
            self._write_config(config, about, [])
        except BaseException:
            self.environment.unlink(missing_ok=True)
            raise

    def _write_config(
        self, config: Config, surroundings: dict[str, Any], before: list[bytes]
    ) -> None:
        """Write the checksum, then the config; in between, the old config is still valid."""
        text = config.toml()
        checksums = [digest([raw]) for raw in (*before, text.encode())]
        write_checked_json(self.environment, {**surroundings, "config_sha256": checksums})
        write_text(self.config, text)

    def metrics_lines(self) -> list[dict[str, Any]]:
        """Return the rounds so far."""
        text = read_text(self.metrics) if self.metrics.exists() else ""
        lines = []
        for number, one in enumerate(text.splitlines(), start=1):
            try:
                line = parse_json(one, self.metrics)
            except FedgrainError:
                line = None
            if not isinstance(line, dict) or not line.keys() >= _ROUND:
                raise RunError(f"{self.metrics}, line {number}: not a round of a run; {AGAIN}")
            lines.append(line)
        if self.ended:
            self.check_lines(*self._read_result()[1])
        elif self.state.exists() and not self.again.exists():
            about = about_of(self.state, read_bytes(self.state))
            self.check_lines(int(about.get("lines", 0)), about.get("metrics_sha256"))
        return lines

    def metrics_digest(self, count: int) -> str:
        """Return the checksum of the first lines of ``metrics.jsonl``."""
        return digest(self._raw_lines()[:count])

    def check_lines(self, count: int, checksum: str | None) -> None:
        """Refuse metrics whose first lines are missing or changed."""
        if len(self._raw_lines()) < count:
            raise RunError(f"{self.metrics}: some of its {count} rounds are missing; {AGAIN}")
        if checksum is not None and self.metrics_digest(count) != checksum:
            raise damaged(self.metrics, AGAIN, RunError)

    def check_metrics(self) -> None:
        """Refuse metrics that are not those of the result."""
        self.check_lines(*self._read_result()[1])

    def _raw_lines(self) -> list[bytes]:
        raw = read_bytes(self.metrics) if self.metrics.exists() else b""
        return [line + b"\n" for line in raw.split(b"\n")[:-1]]

    def read_result(self) -> dict[str, Any]:
        """Read the result of the run."""
        return self._read_result()[0]

    def _read_result(self) -> tuple[dict[str, Any], tuple[int, str | None]]:
        values, checked = read_checked(self.result, AGAIN, RunError)
        rounds = values.pop("metrics", None)
        for name, kinds in _RESULT.items():
            if not isinstance(values.get(name, ...), kinds):
                raise RunError(f"{self.result}: {name} is missing or damaged; {AGAIN}")
        if not checked:
            warn_unchecked(self.result)
            return values, (0, None)
        told = rounds if isinstance(rounds, dict) else {}
        if not isinstance(told.get("lines"), int) or "sha256" not in told:
            raise RunError(f"{self.result}: metrics is missing or damaged; {AGAIN}")
        return values, (told["lines"], told["sha256"])

    def write_result(self, values: dict[str, Any], lines: int) -> None:
        """Write the result of the run, with the checksum of its lines of metrics."""
        rounds = {"lines": lines, "sha256": self.metrics_digest(lines)}
        write_checked_json(self.result, {**values, "metrics": rounds})

    def keep_lines(self, count: int) -> None:
        """Drop lines of rounds that the saved state does not include (the run was killed)."""
        if self.metrics.exists() and read_bytes(self.metrics) != b"".join(
            kept := self._raw_lines()[:count]
        ):
            write_text(self.metrics, b"".join(kept).decode())

    def add_line(self, line: dict[str, Any]) -> None:
        """Append one round to ``metrics.jsonl``, all of it or nothing."""
        append_line(self.metrics, json.dumps(line))

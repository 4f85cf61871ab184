"""The folder of a run: what it was told, what it did, what it learned, how it ended."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedgrain.errors import RunError
from fedgrain.experiment.config import Config, differences, read_config
from fedgrain.files import read_text, write_text


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

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the lock ends with the process, however it ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"{self.path}: another process is running here; wait for it"
                ) from None
            yield

    def claim(self, config: Config) -> None:
        """Write the config into a new folder; refuse a folder that belongs to another one."""
        if self.config.exists():
            different = differences(read_config(self.config), config)
            if different:
                raise RunError(
                    f"{self.path}: the folder holds a run with other settings: "
                    f"{', '.join(different)}; choose another folder or the same settings"
                )
            return
        strangers = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
        if strangers:
            raise RunError(
                f"{self.path}: the folder is not empty and not a run ({strangers[0]}); "
                "choose a new folder"
            )
        write_json(self.environment, environment())
        write_text(self.config, config.toml())

    def metrics_lines(self) -> list[dict[str, Any]]:
        """Return the rounds so far."""
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in read_text(self.metrics).splitlines()]

    def keep_lines(self, count: int) -> None:
        """Drop what a killed run had written of a round that its state does not hold."""
        lines = read_text(self.metrics).splitlines() if self.metrics.exists() else []
        if len(lines) != count or (lines and not self.metrics.read_bytes().endswith(b"\n")):
            write_text(self.metrics, "".join(f"{line}\n" for line in lines[:count]))

    def add_line(self, line: dict[str, Any]) -> None:
        """Append one round to ``metrics.jsonl``."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object whole or not at all."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read an object."""
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise RunError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    if not isinstance(content, dict):
        raise RunError(f"{path}: not a JSON object")
    return content


def environment() -> dict[str, Any]:
    """Return the versions and the machine a run was made with."""
    from importlib.metadata import version

    packages = ("fedgrain", "numpy", "torch", "pillow", "safetensors")
    return {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }

"""The commands that make a run or a study again, from any folder.

Relative paths in a config begin in the folder in which the run was started, which
``environment.json`` records; the commands first go there.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgrain.checked_json import read_checked_json
from fedgrain.config.config import PLACES, Config
from fedgrain.runs.run_folder import RunFolder

STARTED_IN = "started_in"  # in environment.json


def started_in(place: RunFolder) -> Path | None:
    """Return the folder in which a run was started; None if it was not recorded or is gone."""
    if not place.environment.exists():
        return None
    where = read_checked_json(place.environment).get(STARTED_IN)
    return Path(where) if isinstance(where, str) and Path(where).is_dir() else None


def with_places_found(config: Config, place: RunFolder) -> Config:
    """Return the config with its paths as they are found from where the run was started.

    A path that is not there, or no longer, is taken as it is: from the current folder.
    """
    start = started_in(place)
    if start is None:
        return config
    paths = {name: getattr(config, name) for name in PLACES}
    paths["knowledge"] = config.knowledge if config.knowledge_file is not None else None
    moved: dict[str, Any] = {
        name: str(start / path)
        for name, path in paths.items()
        if isinstance(path, str) and (start / path).exists()
    }
    return replace(config, **moved)


def run_command(place: RunFolder, code: bool, out: str) -> str:
    """Return the command that makes a run again in ``out``; ``code`` if it has the user's own."""
    words = ["fedgrain", "run", str(place.config.resolve()), "--out", out]
    return _from(started_in(place), words + ["--trust-code"] * code)


def study_command(study: Path, name: str, code: bool, runs: Sequence[RunFolder]) -> str:
    """Return the command that makes a study again; its runs know where it was started."""
    starts = (found for place in runs if (found := started_in(place)) is not None)
    words = ["fedgrain", "study", str(study.resolve()), "--out", f"again/{name}"]
    return _from(next(starts, None), words + ["--trust-code"] * code)


def _from(start: Path | None, words: Sequence[str]) -> str:
    command = shlex.join(words)
    return command if start is None else f"cd {shlex.quote(str(start))} && {command}"

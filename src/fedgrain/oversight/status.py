"""``fedgrain flower status``: where a federation's run stands, from the files of the server.

It asks nobody: the run folder has a line per round with the sites that trained and those that
were left out, and ``traffic.jsonl`` the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from fedgrain.catalogue import stages
from fedgrain.deployment.key_record import FILE, Record
from fedgrain.errors import DeploymentError
from fedgrain.files import read_text
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.validation_score import describe
from fedgrain.text import one_line

MISSING_AFTER = 2  # rounds without an update in a row
_LATEST = 5  # rounds by which the rest is estimated

Lines = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class SiteStatus:
    """One site in a run."""

    name: str
    has_key: bool
    rounds: int  # with an update of it
    faults: int
    last_seen: str | None  # when the last round with an update of it ended
    silent: int  # rounds since then, or since the first
    reason: str  # of its last fault, if it is silent

    @property
    def missing(self) -> bool:
        """Whether it has sent nothing for some rounds."""
        return self.silent >= MISSING_AFTER


@dataclass(frozen=True)
class Status:
    """A run across sites, as far as it is."""

    state: str  # not started, running or finished
    round: str
    score: str
    at_most_seconds_left: float | None
    last_round_ended: str | None
    messages: int
    bytes: int
    faults: int
    sites: tuple[SiteStatus, ...]

    @property
    def missing(self) -> list[SiteStatus]:
        """The sites that have sent nothing for some rounds; of a finished run there are none."""
        return [site for site in self.sites if site.missing and self.state == "running"]


def read_status(folder: Path) -> Status:
    """Read where the run of a federation stands; the folder is that of ``fedgrain flower init``."""
    if not (folder / FILE).exists():
        raise DeploymentError(
            f"{folder}: has no {FILE}; give the folder that fedgrain flower init wrote"
        )
    record, place = Record.read(folder / FILE), RunFolder(folder / "run")
    lines = place.metrics_lines() if place.metrics.exists() else []
    ends = _ends(place.metrics, lines)
    sites = tuple(
        _site(name, bool(member.key), lines, ends) for name, member in record.members.items()
    )
    finished = place.result.exists()
    last = lines[-1] if lines else None
    traffic = _traffic(place.path / "traffic.jsonl")
    return Status(
        "finished" if finished else "running" if lines else "not started",
        "" if last is None else f"{last['stage']} {last['round']}",
        "" if last is None else describe(last.get("validation"), last["validation_hf"]),
        None if finished or last is None else _seconds_left(place, lines),
        ends[-1] if ends else None,
        sum(int(one["messages"]) for one in traffic),
        sum(int(one["bytes"]) for one in traffic),
        sum(len(line["faults"]) for line in lines),
        sites,
    )


def _site(name: str, has_key: bool, lines: Lines, ends: Sequence[str]) -> SiteStatus:
    joined = [place for place, line in enumerate(lines) if name in _trained(line)]
    own = [fault for line in lines for fault in line["faults"] if str(fault["client"]) == name]
    silent = len(lines) - 1 - joined[-1] if joined else len(lines)
    seen = ends[joined[-1]] if joined else None
    reason = one_line(own[-1]["fault"]) if own and silent else ""
    return SiteStatus(name, has_key, len(joined), len(own), seen, silent, reason)


def _trained(line: Mapping[str, Any]) -> set[str]:
    """Return the sites whose update a round has, of the whole model or of any branch."""
    parts = [line["clients"], *(branch["clients"] for branch in line.get("branches", ()))]
    return {str(one["client"]) for part in parts for one in part}


def _ends(metrics: Path, lines: Lines) -> list[str]:
    """Return when each round ended: the last when the file was written, the others by seconds."""
    if not lines:
        return []
    moment, found = metrics.stat().st_mtime, []
    for line in reversed(lines):
        found.append(datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds"))
        moment -= float(line["seconds"])
    return found[::-1]


def _seconds_left(place: RunFolder, lines: Lines) -> float:
    """Return how long all rounds that the settings still allow would take, as the last ones did."""
    config = place.read_config()
    left = 0.0
    for entry in stages(config.algorithm):
        own = [line for line in lines if line["stage"] == entry.name]
        # a stage that has not begun is taken to be as slow as what was seen last
        usual = fmean(float(line["seconds"]) for line in (own or lines)[-_LATEST:])
        ended = bool(own) and lines[-1]["stage"] != entry.name
        left += 0.0 if ended else usual * max(0, getattr(config, entry.cap) - len(own))
    return left


def _traffic(path: Path) -> list[dict[str, Any]]:
    """Return the lines of the traffic; a torn last one, being written, is left out."""
    found = []
    for text in read_text(path).splitlines() if path.exists() else ():
        try:
            found.append(json.loads(text))
        except ValueError:
            break
    return found

"""Every noised update that was sent, a line each: what was sent twice is paid for twice.

The server writes a line before it asks sites to train, a site before its answer leaves. So neither
forgets a round that was repeated because a process was killed; what was written but never sent is
counted as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedgrain.deployment.privacy import Privacy
from fedgrain.deployment.server_settings import Begun, Operation
from fedgrain.errors import FedgrainError
from fedgrain.files import append_line, read_text
from fedgrain.parsing import parse_json


@dataclass(frozen=True)
class SiteLedger:
    """What one site has sent, in all runs."""

    path: Path

    def add(self, run: str, round_number: int, privacy: Privacy) -> int:
        """Write one release down; return how many this run has had."""
        append_line(self.path, json.dumps({"run": run, "round": round_number, **asdict(privacy)}))
        return sum(line.get("run", run) == run for line in _lines(self.path))


@dataclass(frozen=True)
class ServerLedger:
    """What the server has asked its sites to send, in one run."""

    begun: Begun
    operation: Operation

    @property
    def path(self) -> Path:
        """Where it is, in the run folder."""
        return self.begun.place.path / "releases.jsonl"

    @property
    def run(self) -> str:
        """The name by which sites' ledgers know the run."""
        return self.begun.name(self.operation)

    def add(self, round_number: int, sites: Sequence[str]) -> None:
        """Write down that these sites are about to be asked."""
        append_line(self.path, json.dumps({"round": round_number, "sites": list(sites)}))

    def agree(self, round_number: int, site: str, reported: int) -> None:
        """Believe a site that has sent more than it was asked for, as its own ledger says."""
        more = reported - self.releases()[site]
        if more > 0:
            self.add(round_number, [site] * more)

    def releases(self) -> dict[str, int]:
        """Count the releases of every site; a line that was cut off counts for each."""
        every = list(self.operation.sites)
        asked = [line.get("sites", every) for line in _lines(self.path)]
        asked = [sites if isinstance(sites, list) else every for sites in asked]
        return {name: sum(sites.count(name) for sites in asked) for name in self.operation.sites}


def _lines(path: Path) -> list[dict[str, Any]]:
    """Read a ledger; a line that was cut off by a power cut is an empty one."""
    if not path.exists():
        return []
    return [_line(text) for text in read_text(path).splitlines() if text]


def _line(text: str) -> dict[str, Any]:
    try:
        line = parse_json(text, "a ledger")
    except FedgrainError:
        return {}
    return line if isinstance(line, dict) else {}

"""A line for every noised update that was sent: an update sent twice counts twice.

The server writes a line before it asks sites to train, a site before it sends its answer. So rounds
repeated because a process was killed are counted; so is a line that was written but never sent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedgrain.deployment.privacy import Privacy
from fedgrain.deployment.server_settings import Operation, StartRecord
from fedgrain.errors import FedgrainError
from fedgrain.files import append_line, read_text
from fedgrain.parsing import parse_json


@dataclass(frozen=True)
class SiteLedger:
    """The releases of one site, in all runs."""

    path: Path

    def add(self, run: str, round_number: int, privacy: Privacy) -> int:
        """Record one release; return how many this run has had."""
        append_line(self.path, json.dumps({"run": run, "round": round_number, **asdict(privacy)}))
        return sum(line.get("run", run) == run for line in _lines(self.path))

    def epsilon(self, privacy: Privacy, more: int = 0) -> float:
        """Return what all releases, of all runs, have cost, and so many more with this privacy.

        Gaussian releases compose exactly: the squares of their ratios of sensitivity to noise add
        up (Dong et al. 2022). A damaged line counts as a release with this privacy.
        """
        ratios = [_multiplier(line, privacy) ** -2 for line in _lines(self.path)]
        ratios += [privacy.noise_multiplier**-2] * more
        if not ratios:
            return 0.0
        return replace(privacy, noise_multiplier=sum(ratios) ** -0.5).epsilon(1)


@dataclass(frozen=True)
class ServerLedger:
    """The releases the server has asked its sites for, in one run."""

    start: StartRecord
    operation: Operation

    @property
    def path(self) -> Path:
        """Its path in the run folder."""
        return self.start.place.path / "releases.jsonl"

    @property
    def run(self) -> str:
        """The name of the run in the sites' ledgers."""
        return self.start.name(self.operation)

    def add(self, round_number: int, sites: Sequence[str]) -> None:
        """Record that these sites are about to be asked."""
        append_line(self.path, json.dumps({"round": round_number, "sites": list(sites)}))

    def agree(self, round_number: int, site: str, reported: int) -> None:
        """Record further releases if a site's own ledger has more than the server's."""
        more = reported - self.releases()[site]
        if more > 0:
            self.add(round_number, [site] * more)

    def releases(self) -> dict[str, int]:
        """Count the releases of every site; a damaged line counts for every site."""
        every = list(self.operation.sites)
        asked = [line.get("sites", every) for line in _lines(self.path)]
        asked = [sites if isinstance(sites, list) else every for sites in asked]
        return {name: sum(sites.count(name) for sites in asked) for name in self.operation.sites}


def _multiplier(line: dict[str, Any], privacy: Privacy) -> float:
    found = line.get("noise_multiplier")
    if isinstance(found, float) and 0 < found < math.inf:
        return found
    return privacy.noise_multiplier


def _lines(path: Path) -> list[dict[str, Any]]:
    """Read a ledger; a line damaged by a power cut becomes an empty object."""
    if not path.exists():
        return []
    return [_line(text) for text in read_text(path).splitlines() if text]


def _line(text: str) -> dict[str, Any]:
    try:
        line = parse_json(text, "a ledger")
    except FedgrainError:
        return {}
    return line if isinstance(line, dict) else {}

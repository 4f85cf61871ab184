"""What an algorithm reports on each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RoundReport:
    """One line of ``metrics.jsonl``, without the time it took."""

    stage: str
    round: int
    validation_hf: float | None  # None without validation samples
    clients: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    branches: list[dict[str, Any]] | None = None

    def line(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        content = dict(vars(self))
        if self.branches is None:
            del content["branches"]
        return content

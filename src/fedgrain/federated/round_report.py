"""What an algorithm reports on each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedgrain.scoring.validation_score import ValidationScore


@dataclass(frozen=True)
class RoundReport:
    """One line of ``metrics.jsonl``, without the time it took."""

    stage: str
    round: int
    validation: ValidationScore | None  # None without validation samples
    clients: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    branches: list[dict[str, Any]] | None = None
    bytes_sent: int = 0  # weights to the clients, and back

    def line(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        score = self.validation
        content = {"stage": self.stage, "round": self.round, "validation_hf": self.validation_hf}
        content |= {} if score is None else {"validation": score.entries()}
        content |= {"clients": self.clients, "faults": self.faults}
        content |= {"bytes_sent": self.bytes_sent} if self.bytes_sent else {}
        return content if self.branches is None else {**content, "branches": self.branches}

    @property
    def validation_hf(self) -> float | None:
        """The HF over all validation labels; predictions are cut back where a label is coarse."""
        return None if self.validation is None else self.validation.hf

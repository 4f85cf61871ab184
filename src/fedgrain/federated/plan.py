"""What an algorithm is told besides the data, and who takes part in a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fedgrain.federated.averaging import ServerSettings
from fedgrain.federated.early_stopping import EarlyStopping
from fedgrain.federated.local_training import LocalSettings
from fedgrain.randomness import numpy_generator


@dataclass(frozen=True)
class Plan:
    """The settings of section 10, the same for every engine."""

    seed: int = 47
    join_ratio: float = 0.5
    rounds: int = 100
    cycles: int = 20
    local: LocalSettings = field(default_factory=LocalSettings)
    branch: LocalSettings = field(default_factory=lambda: LocalSettings(lr=0.01))
    server: ServerSettings = field(default_factory=ServerSettings)
    average_rounds: int = 1  # of fedavg; how many of the last rounds the kept weights are a mean of
    stopping: EarlyStopping = field(default_factory=EarlyStopping)
    min_branch_samples: int = 8  # gamma
    min_clients: int = 1  # updates a round needs


@dataclass(frozen=True)
class Report:
    """One line of ``metrics.jsonl``, but for the time it took."""

    stage: str
    round: int
    validation_hf: float | None  # None if there is nothing to judge by
    clients: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    branches: list[dict[str, Any]] | None = None

    def line(self) -> dict[str, Any]:
        """Return what JSON is to hold."""
        content = dict(vars(self))
        if self.branches is None:
            del content["branches"]
        return content


def joining(clients: int, ratio: float) -> int:
    """Return how many clients take part in a round: the ratio of them, rounded, at least one."""
    return max(1, int(ratio * clients + 0.5))


def sample(
    eligible: Sequence[int], count: int, seed: int, purpose: str, *numbers: int
) -> list[int]:
    """Draw ``count`` of the eligible clients, or all if they are fewer; in ascending order."""
    if len(eligible) <= count:
        return sorted(eligible)
    generator = numpy_generator(seed, purpose, *numbers)
    chosen = generator.choice(len(eligible), size=count, replace=False)
    return sorted(eligible[number] for number in chosen.tolist())

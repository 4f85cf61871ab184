"""The settings of federated training, the same for every algorithm and engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fedgrain.federated.averaging import ServerSettings
from fedgrain.federated.early_stopping import EarlyStopping
from fedgrain.federated.local_training import LocalSettings
from fedgrain.federated.schedules import Schedule


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of a training; the defaults are the paper's (method, section 10)."""

    seed: int = 47
    join_ratio: float = 0.5
    rounds: int = 100
    cycles: int = 20
    local: LocalSettings = field(default_factory=LocalSettings)
    branch: LocalSettings = field(default_factory=lambda: LocalSettings(lr=0.01))
    server: ServerSettings = field(default_factory=ServerSettings)
    average_rounds: int = 1  # fedavg: the kept weights are a mean over about this many last rounds
    stopping: EarlyStopping = field(default_factory=EarlyStopping)
    min_branch_samples: int = 8  # gamma
    min_clients: int = 1  # updates a round needs
    schedule: Schedule = field(default_factory=Schedule)  # of both learning rates

    def local_in(self, number: int) -> LocalSettings:
        """Return how a client trains in a round, with the learning rate of that round."""
        return self._at_rate(self.local, self.schedule.at(number, self.rounds))

    def branch_in(self, number: int) -> LocalSettings:
        """Return how a client trains a branch in a cycle."""
        return self._at_rate(self.branch, self.schedule.at(number, max(self.cycles, 1)))

    def _at_rate(self, local: LocalSettings, factor: float) -> LocalSettings:
        return local if factor == 1.0 else replace(local, lr=local.lr * factor)

"""What an engine does for the algorithms, and the plain one: one client after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedgrain.federated.averaging import State
from fedgrain.federated.client import Update, is_finite
from fedgrain.federated.workshop import Workshop


@dataclass(frozen=True, eq=False)
class Task:
    """One client's work in one round: the whole model, or one branch of it."""

    round: int
    client: int
    weights: State
    branch: int | None = None


@dataclass(frozen=True)
class Fault:
    """A client's update that is lost, and why."""

    reason: str


class Engine(Protocol):
    """Where clients train and models are validated. The bits do not depend on the engine."""

    @property
    def clients(self) -> int:
        """Return the number of clients."""

    def client_name(self, client: int) -> str:
        """Return a client's name."""

    def samples(self, client: int, branch: int | None = None) -> int:
        """Return how many of a client's samples enter the loss, of the whole or of a branch."""

    def children_with_data(self, branch: int) -> int:
        """Return how many children of a branch have data at any client."""

    def train(self, tasks: Sequence[Task]) -> Iterable[tuple[Task, Update | Fault]]:
        """Train every task; outcomes come in the order of the tasks."""

    def validate(self, weights: State) -> float:
        """Return the validation HF of the whole model."""

    def validate_branch(self, branch: int, weights: State) -> float | None:
        """Return a branch's accuracy over the validation samples below it, None without any."""

    def validate_branches(self, weights: Mapping[int, State]) -> float:
        """Return the validation HF of the decoupled model."""


class SequentialEngine:
    """All clients in this process, in order."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        federation = workshop.federation
        self.clients = len(federation.clients)
        self._names = [client.name for client in federation.clients]
        self.samples = workshop.samples
        self.children_with_data = workshop.children_with_data
        self.validate = workshop.validate
        self.validate_branch = workshop.validate_branch
        self.validate_branches = workshop.validate_branches

    def client_name(self, client: int) -> str:
        """Return a client's name."""
        return self._names[client]

    def train(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Update | Fault]]:
        """Train one task after the other; a client that fails loses its own update alone."""
        for task in tasks:
            yield task, self._outcome(task)

    def _outcome(self, task: Task) -> Update | Fault:
        try:
            update = self.workshop.train(task.round, task.client, task.weights, task.branch)
        except (RuntimeError, ValueError, ArithmeticError, OSError) as error:
            return Fault(f"{type(error).__name__}: {error}")
        if not is_finite(update.state):
            return Fault("the update holds NaN or infinite weights")
        return update

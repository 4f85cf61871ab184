"""The plain engine: one client after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fedgrain.engines.workshop import Workshop
from fedgrain.federated.averaging import RunningAverage, State
from fedgrain.federated.engine import Task, checked
from fedgrain.federated.faults import Fault
from fedgrain.federated.local_training import Update


class SequentialEngine:
    """All clients in this process, in order."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self.retries: list[dict[str, str]] = []
        self.client_names = [client.name for client in workshop.federation.clients]
        self.parameters = workshop.parameters
        self.branch_name = workshop.federation.taxonomy.ids.__getitem__
        self.samples = workshop.samples
        self.children_with_data = workshop.children_with_data
        self.new_average = RunningAverage
        self.decouple = workshop.decoupled

    def validate(self, weights: State) -> float:
        """Return the validation HF of the whole model."""
        return self.workshop.validate(weights)

    def validate_branches(self, weights: Mapping[int, State]) -> float:
        """Return the validation HF of the decoupled model."""
        return self.workshop.validate_branches(weights)

    def branch_accuracies(self, weights: Mapping[int, State]) -> dict[int, float | None]:
        """Validate one branch after the other."""
        return {e: self.workshop.validate_branch(e, state) for e, state in weights.items()}

    def train(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Update | Fault]]:
        """Train one task after the other; a failing client loses only its own update."""
        for task in tasks:
            yield task, train_task(self.workshop, task)


def train_task(workshop: Workshop, task: Task) -> Update | Fault:
    """Train one task; any exception, from the client's data or a user's net, becomes a fault."""
    try:
        update = workshop.train(task.round, task.client, task.weights, task.branch, task.correction)
    except Exception as error:
        return Fault.of(error)
    return checked(task, update)

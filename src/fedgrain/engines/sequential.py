"""The plain engine: one client after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fedgrain.engines.client_trainer import ClientTrainer
from fedgrain.engines.validator import Validator
from fedgrain.federated.averaging import RunningAverage, State
from fedgrain.federated.engine import Task, checked
from fedgrain.federated.faults import Fault
from fedgrain.federated.local_training import Update
from fedgrain.scoring.validation_score import ValidationScore


class SequentialEngine:
    """All clients in this process, in order."""

    def __init__(self, trainer: ClientTrainer) -> None:
        self.trainer, self.model = trainer, trainer.model
        self.validator = Validator(trainer.federation, trainer.model)
        self.retries: list[dict[str, str]] = []
        self.client_names = [client.name for client in trainer.federation.clients]
        self.parameters = trainer.model.parameters
        self.branch_name = trainer.federation.taxonomy.ids.__getitem__
        self.samples = trainer.samples
        self.children_with_data = trainer.children_with_data
        self.new_average = RunningAverage
        self.decouple = trainer.model.decouple

    def validate(self, weights: State) -> ValidationScore:
        """Return the validation score of the whole model."""
        return self.validator.validate(weights)

    def validate_branches(self, weights: Mapping[int, State]) -> ValidationScore:
        """Return the validation score of the decoupled model."""
        return self.validator.validate_branches(weights)

    def branch_accuracies(self, weights: Mapping[int, State]) -> dict[int, float | None]:
        """Validate one branch after the other."""
        return {e: self.validator.validate_branch(e, state) for e, state in weights.items()}

    def train(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Update | Fault]]:
        """Train one task after the other; a failing client loses only its own update."""
        for task in tasks:
            yield task, train_task(self.trainer, task)


def train_task(trainer: ClientTrainer, task: Task) -> Update | Fault:
    """Train one task; any exception, from the client's data or a user's net, becomes a fault."""
    try:
        update = trainer.train(task.round, task.client, task.weights, task.branch, task.correction)
    except Exception as error:
        return Fault.of(error)
    return checked(task, update)

"""The interface of an engine, and how the updates of a round are checked and averaged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from fedgrain.federated.averaging import RunningAverage, State
from fedgrain.federated.faults import LOG, Fault, Kind
from fedgrain.federated.local_training import Update
from fedgrain.federated.movement import Movements
from fedgrain.scoring.validation_score import ValidationScore

_ABSURD = 1e3  # no model moves this many times its own norm in one round


@dataclass(frozen=True, eq=False)
class Task:
    """One client's work in one round: the whole model, or one branch of it."""

    round: int
    client: int
    weights: State
    branch: int | None = None
    correction: State | None = None  # added to every gradient, by name; None or empty adds nothing


class Engine(Protocol):
    """Where clients train and models are validated. The bits do not depend on the engine."""

    @property
    def client_names(self) -> Sequence[str]:
        """The clients, by number."""

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the trained weights; everything else in a state is a buffer."""

    @property
    def retries(self) -> Sequence[Mapping[str, str]]:
        """Tasks repeated because a worker died, and why."""

    def branch_name(self, branch: int) -> str:
        """Return the id of the node a branch belongs to."""

    def samples(self, client: int, branch: int | None = None) -> int:
        """Return how many of a client's samples enter the loss, of the whole or of a branch."""

    def children_with_data(self, branch: int) -> int:
        """Return how many children of a branch have data at any client."""

    def decouple(self, weights: State) -> dict[int, State]:
        """Return the weights of each branch, cut out of those of a trained cond-softmax."""

    def train(self, tasks: Sequence[Task]) -> Iterable[tuple[Task, Update | Fault]]:
        """Train every task; outcomes come in the order of the tasks."""

    def new_average(self) -> RunningAverage:
        """Return an empty average for the updates of a round, or of a branch's round."""

    def validate(self, weights: State) -> ValidationScore | None:
        """Return the validation score of the whole model; None without validation samples."""

    def branch_accuracies(self, weights: Mapping[int, State]) -> dict[int, float | None]:
        """Return each branch's accuracy over the validation samples below it, or None."""

    def validate_branches(self, weights: Mapping[int, State]) -> ValidationScore | None:
        """Return the validation score of the decoupled model; None without validation samples."""


def checked(task: Task, update: Update) -> Update | Fault:
    """Return an update that can be averaged; one that would corrupt the mean becomes a fault."""
    if update.state.keys() != task.weights.keys():
        return Fault("its update has other weights than it was sent", Kind.MISFIT)
    for name, value in task.weights.items():
        if update.state[name].shape != value.shape or update.state[name].dtype != value.dtype:
            found, wanted = list(update.state[name].shape), list(value.shape)
            text = f"its update has {name} of shape {found}, but {wanted} was sent"
            return Fault(text, Kind.MISFIT)
    if not update.finite:
        return Fault("its update holds NaN or infinite numbers", Kind.NOT_FINITE)
    way, start = distance(update.state, task.weights), distance(task.weights, None)
    if way > _ABSURD * (1.0 + start):
        text = f"its update is absurdly large: it moved by {way:.3g} from a norm of {start:.3g}"
        return Fault(text, Kind.TOO_LARGE)
    return update


def distance(state: State, origin: State | None) -> float:
    """Return the norm of all weights, or of their distance from the origin, in float32."""
    norms = [
        float(torch.linalg.vector_norm(value if origin is None else value - origin[name]))
        for name, value in state.items()
        if value.is_floating_point()
    ]
    return math.hypot(*norms)


@dataclass(frozen=True)
class Gathered:
    """The result of a round's clients: their mean, and a line about each."""

    average: RunningAverage
    clients: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    bytes_sent: int = 0  # to the clients, and back


def gather(outcomes: Iterable[tuple[Task, Update | Fault]], engine: Engine) -> Gathered:
    """Add updates to the mean as they arrive; a client's weight is the samples in its loss.

    The sum goes in the order of the tasks, the lines in the order of the clients.
    """
    average, movements = engine.new_average(), Movements()
    lines: dict[int, dict[str, Any]] = {}
    faults: dict[int, dict[str, Any]] = {}
    sent = 0
    for task, outcome in outcomes:
        sent += _size(task.weights) + _size(task.correction or {})
        name = engine.client_names[task.client]
        if isinstance(outcome, Fault):
            faults[task.client] = outcome.line(name)
            if outcome.trace:
                LOG.error("round %d, %s:\n%s", task.round, name, outcome.trace)
            continue
        sent += _size(outcome.state)
        average.add(outcome.state, outcome.samples)
        if outcome.loss is not None:  # a site that withholds it, as under privacy, tells no more
            movements.add(
                task.client, task.weights, outcome.state, outcome.samples, engine.parameters
            )
        line = {"samples": outcome.samples, "loss": outcome.loss, "steps": outcome.steps}
        lines[task.client] = {"client": name, **line}
    for client, moved in movements.lines().items():
        lines[client] |= moved
    return Gathered(average, _by_client(lines), _by_client(faults), sent)


def _size(state: State) -> int:
    """Return the bytes of a state's numbers, without names and packing."""
    return sum(value.numel() * value.element_size() for value in state.values())


def _by_client(lines: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [lines[client] for client in sorted(lines)]

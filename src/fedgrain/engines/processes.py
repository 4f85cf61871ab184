"""Use all cores of this machine: every client trains in a single-threaded worker process.

Jobs go to the next free worker in the order they are given, and their answers come back in that
order whatever the number of workers: sums have the same bits. Only the images are shared; the
server holds the global model, the running sum and a few answers that wait for their turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedgrain.engines import ClientTrainer, SequentialEngine
from fedgrain.engines.pickles import packed
from fedgrain.engines.shared_images import handle
from fedgrain.engines.worker_pool import Job, Pool
from fedgrain.engines.worker_process import Recipe
from fedgrain.errors import FederationError
from fedgrain.federated.averaging import State
from fedgrain.federated.engine import Task, checked
from fedgrain.federated.faults import Fault
from fedgrain.federated.federation import Indices
from fedgrain.federated.local_training import Update
from fedgrain.scoring.validation_score import ValidationScore

_AHEAD = 4  # answers per worker that may wait for their turn


class ProcessEngine(SequentialEngine):
    """The engine of one machine. Use it as a context manager: its workers end with it."""

    def __init__(
        self, trainer: ClientTrainer, workers: int, time_limit: float | None = None
    ) -> None:
        super().__init__(trainer)
        source = trainer.federation.source
        nothing = np.empty((0, *source.array.shape[1:]), source.array.dtype)
        recipe = Recipe(
            replace(trainer.federation, source=source.on(nothing)),
            handle(source.array),
            trainer.model.spec,
            trainer.settings,
            str(trainer.model.device),
        )
        self._time_limit = time_limit
        self._workers = workers
        self._pool = Pool(packed(recipe), workers)
        self.retries = self._pool.retries

    @property
    def worker_seconds(self) -> float:
        """The time on cores that the workers have used so far."""
        return self._pool.core_seconds()

    def __enter__(self) -> ProcessEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def train(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Update | Fault]]:
        """Train all tasks at once; outcomes come in the order of the tasks.

        A task whose worker dies is trained again: the machine is at fault, not the client.
        """
        jobs = (
            Job(
                "train",
                (task.round, task.client, task.weights, task.branch, task.correction),
                self._time_limit,
                subject=self.client_names[task.client],
            )
            for task in tasks
        )
        for task, answer in zip(
            tasks, self._pool.in_order(jobs, _AHEAD * self._workers), strict=True
        ):
            yield task, answer if isinstance(answer, Fault) else checked(task, answer)

    def validate(self, weights: State) -> ValidationScore:
        """Return the validation score of the whole model."""
        return self.validator.score(
            lambda indices: self._spread("predict_leaves", weights, indices)
        )

    def validate_branches(self, weights: Mapping[int, State]) -> ValidationScore:
        """Return the validation score of the decoupled model."""
        name = "predict_leaves_by_branches"
        return self.validator.score(lambda indices: self._spread(name, dict(weights), indices))

    def branch_accuracies(self, weights: Mapping[int, State]) -> dict[int, float | None]:
        """Validate all branches in parallel."""
        jobs = (self._validation("validate_branch", *model) for model in weights.items())
        answers = self._pool.in_order(jobs, _AHEAD * self._workers)
        return {branch: _found(answer) for branch, answer in zip(weights, answers, strict=True)}

    def _spread(self, name: str, model: object, indices: Indices) -> Indices:
        """Predict images on all workers, a part each."""
        parts = [part for part in np.array_split(indices, self._workers) if len(part)]
        jobs = (self._validation(name, model, part) for part in parts)
        answers = [_found(answer) for answer in self._pool.in_order(jobs, len(parts))]
        return np.concatenate(answers) if answers else np.empty(0, np.int64)

    def _validation(self, name: str, *arguments: Any) -> Job:
        """Return a validation job, which may take longer than a client's."""
        return Job(name, arguments, self._time_limit, may_be_slow=True, subject="validation")


def _found(answer: Any) -> Any:
    """Return the answer to a validation, or raise: without it the round cannot end."""
    if isinstance(answer, Fault):
        raise FederationError(f"validation failed: {answer.reason}")
    return answer

"""The work every contender does: the clients, and an engine that does not validate."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from fedgrain.data import LabelledImages, load_dataset, partition_iid, split_validation
from fedgrain.data.cifar100 import LAYOUT, NORMALISATION
from fedgrain.engines import ClientTrainer, ModelSpec
from fedgrain.engines.processes import ProcessEngine
from fedgrain.engines.shared_images import shared
from fedgrain.federated import (
    Client,
    Engine,
    Federation,
    ImageSource,
    LabelledPart,
    LocalSettings,
    Task,
    TrainingSettings,
    Update,
)
from fedgrain.federated.averaging import State
from fedgrain.images.places import find_source
from fedgrain.taxonomy import DEFAULT_MAX_CHILDREN, coarsen
from fedgrain.taxonomy.classes import dataset_taxonomy

SEED = 47
LOCAL = LocalSettings(lr=0.05, batch=32)
BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[3] / "shared" / "data"


def open_engine(
    federation: Federation, spec: ModelSpec, settings: TrainingSettings, workers: int
) -> AbstractContextManager[Engine]:
    """Return the engine under test; the benchmarks name it nowhere else."""
    return ProcessEngine(ClientTrainer(federation, spec, settings), workers)


def end_on_sigterm() -> None:
    """Let SIGTERM end this process as an error would: whatever it started is ended first."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class EvaluationOff:
    """An engine that does not validate, and remembers what it was asked to train.

    ``None`` for a branch's accuracy lets fedbdft train it in every cycle.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.tasks: list[Task] = []
        self.keep_updates = False
        self.updates: list[Update] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def train(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Any]]:
        """Pass the tasks on; a fault would make the round cheaper than it is, so it is an error."""
        self.tasks, self.updates = list(tasks), []
        for task, outcome in self._engine.train(tasks):
            if not isinstance(outcome, Update):
                raise RuntimeError(f"client {task.client} was lost: {outcome.reason}")
            if self.keep_updates:
                self.updates.append(outcome)
            yield task, outcome

    def validate(self, weights: State) -> None:
        """Return nothing, at once."""

    def branch_accuracies(self, weights: Any) -> dict[int, float | None]:
        """Return nothing to judge by: the branches train on."""
        return dict.fromkeys(weights)

    def validate_branches(self, weights: Any) -> None:
        """Return nothing, at once."""


def cifar_images() -> LabelledImages:
    """Load CIFAR-100 where it is at hand, else random images of its shape."""
    root = None
    if find_source(LAYOUT) is None and "FEDGRAIN_DATA" not in os.environ:
        root = BESIDE_THE_REPOSITORY
    if find_source(LAYOUT, root) is not None:
        return load_dataset("cifar100", root=root)
    print("CIFAR-100 is not at hand: random images of its shape", file=sys.stderr)
    return random_images(50_000)


def random_images(count: int) -> LabelledImages:
    """Make random images of CIFAR-100's shape, labelled with its classes."""
    generator = np.random.default_rng(SEED)
    taxonomy = dataset_taxonomy("cifar100")
    return LabelledImages(
        name="random",
        images=generator.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8),
        labels=generator.permutation(np.resize(taxonomy.leaves, count)).astype(np.int32),
        taxonomy=taxonomy,
        splits=np.zeros(count, np.int8),
        split_names=("train",),
        normalisation=NORMALISATION,
    )


def federation_of(
    data: LabelledImages, clients: int, *, validation: float, each: int | None = None
) -> Federation:
    """Deal the training images out evenly to clients that know everything.

    ``validation`` is the share held out at the server, ``each`` caps the images of a client.
    """
    taxonomy = coarsen(data.taxonomy, DEFAULT_MAX_CHILDREN["cifar100"]).taxonomy
    labels = data.taxonomy.nearest_in(taxonomy)[data.labels].astype(np.int64)
    everything = data.split_indices("train")
    kept, held_out = split_validation(data.labels[everything], validation, seed=SEED)
    known = np.ones((1, len(taxonomy)), dtype=np.bool_)  # one labeller, who knows everything
    parts = [everything[kept][part] for part in partition_iid(len(kept), clients, seed=SEED)]

    def labelled(indices: np.ndarray) -> LabelledPart:
        return LabelledPart(indices, labels[indices])

    return Federation(
        source=ImageSource(shared(data.images), data.normalisation),
        taxonomy=taxonomy,
        full_taxonomy=data.taxonomy,
        clients=tuple(
            Client(f"client {number}", labelled(part[:each]), known)
            for number, part in enumerate(parts)
        ),
        validation=labelled(everything[held_out]),
    )

"""A federation small enough to work out by hand: random images, one small tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedgrain.engines import ClientTrainer, ModelSpec, SequentialEngine
from fedgrain.federated import Client, Federation, ImageSource, LabelledPart, Task, TrainingSettings
from fedgrain.images.images import UNKNOWN_STATISTICS
from fedgrain.taxonomy import Taxonomy

CHILDREN = {"r": ["a", "b", "c"], "a": ["a1", "a2", "a3"], "b": ["b1", "b2"]}
TREE = Taxonomy.from_edges([(above, node) for above, nodes in CHILDREN.items() for node in nodes])
NODE = {name: TREE.index(name) for name in TREE.ids}


def part(labels: Sequence[str], first: int) -> LabelledPart:
    """Images number ``first`` and on, with these labels."""
    numbers = np.arange(first, first + len(labels), dtype=np.int64)
    return LabelledPart(numbers, np.array([NODE[label] for label in labels], np.int64))


def known(*names: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A mask of known nodes; the root is always one."""
    return np.array([name in ("r", *names) for name in TREE.ids])


EVERYTHING = known(*TREE.ids)
VALIDATION = ["a1", "a2", "a3", "b1", "b2", "c"] * 2


def federation(
    labels: Sequence[Sequence[str]],
    knowledge: Sequence[np.ndarray[Any, np.dtype[np.bool_]]] | None = None,
    *,
    same_images: bool = False,
    client_validation: Sequence[Sequence[str]] | None = None,
) -> Federation:
    """One client per list of labels; the server validates unless the clients do."""
    starts = [0 if same_images else 100 * number for number in range(len(labels))]
    masks = knowledge or [EVERYTHING] * len(labels)
    images = np.random.default_rng(5).integers(0, 256, (1100, 32, 32, 3), dtype=np.uint8)
    clients = tuple(
        Client(
            f"site {number}",
            part(labels[number], starts[number]),
            masks[number][None],
            None
            if client_validation is None
            else part(client_validation[number], 600 + 100 * number),
        )
        for number in range(len(labels))
    )
    server = part(VALIDATION, 1000) if client_validation is None else None
    return Federation(ImageSource(images, UNKNOWN_STATISTICS), TREE, TREE, clients, server)


class Recording(SequentialEngine):
    """The plain engine, which also remembers what it was asked to train."""

    def __init__(self, trainer: ClientTrainer) -> None:
        super().__init__(trainer)
        self.tasks: list[Task] = []

    def train(self, tasks: Sequence[Task]) -> Any:
        """Remember, and train."""
        self.tasks += tasks
        return super().train(tasks)


def engine(
    sites: Federation, settings: TrainingSettings, net: str = "own_parts:LinearNet", **model: Any
) -> Recording:
    """An engine over these sites."""
    names = ModelSpec(net=net, **{"head": "cond-softmax", **model})
    return Recording(ClientTrainer(sites, names, settings))

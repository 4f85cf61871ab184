"""A closer look at one finished run: where in the taxonomy its model goes wrong, on which images.

The model predicts its test images again (at most ``_MOST_IMAGES`` of them, evenly spaced). All
nodes are those of H, the taxonomy the model works with.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedgrain.arithmetic import one_thread
from fedgrain.data.images import LabelledImages
from fedgrain.errors import RunError
from fedgrain.knowledge import project_known
from fedgrain.models.trained_model import Prediction, TrainedModel
from fedgrain.preparation.client_knowledge import client_knowledge
from fedgrain.preparation.config import Config
from fedgrain.preparation.prepare import prepare, server_validation
from fedgrain.runs.evaluate import predicted_nodes, truths
from fedgrain.scoring.breakdown import NodeScores, per_node
from fedgrain.scoring.metrics import comparable
from fedgrain.taxonomy import Taxonomy

_MOST_IMAGES = 10_000
_WORST = 5  # branches shown with images
_EXAMPLES = 4  # images of each
_FEWEST_SAMPLES = 5  # of a branch that is called bad
_LARGEST_SIDE = 96  # of an example, in pixels


@dataclass(frozen=True)
class Branch:
    """The samples below an inner node that reached it, and how many took the right child."""

    node: int
    arrived: int
    right: int  # went on to the right child

    @property
    def accuracy(self) -> float:
        """The share that took the right child."""
        return self.right / self.arrived


@dataclass(frozen=True)
class Example:
    """A test image that took the wrong child: what it is, and the path predicted for it."""

    truth: tuple[str, ...]  # names from the root
    predicted: Prediction
    picture: str  # a data: URI


@dataclass(frozen=True, eq=False)
class Inspection:
    """One run's model on its tested images."""

    taxonomy: Taxonomy
    tested: int
    split: str
    scores: NodeScores
    branches: tuple[Branch, ...]  # the worst first
    examples: dict[int, tuple[Example, ...]]  # by node of the worst branches; none without images


def inspect(
    model: TrainedModel, config: Config, data: LabelledImages, *, images: bool = True
) -> Inspection:
    """Predict the tested images again and find where the model goes wrong."""
    split, chosen = _tested_images(config, data)
    if len(chosen) > _MOST_IMAGES:
        chosen = chosen[np.linspace(0, len(chosen) - 1, _MOST_IMAGES).round().astype(np.int64)]
    tree = model.taxonomy
    with one_thread():
        predicted = predicted_nodes(model, model.inputs(data), chosen, "leaf", None)
    in_full = truths(model, data, chosen)
    truth = model.full_taxonomy.nearest_in(tree)[in_full].astype(np.int64)
    found = comparable(predicted, truth, tree, tree)
    branches = branches_of(truth, found, tree)
    examples: dict[int, tuple[Example, ...]] = {}
    if images:
        for branch in worst(branches):
            wrong = wrong_at(branch.node, truth, found, tree)[:_EXAMPLES]
            examples[branch.node] = _examples(model, data, chosen[wrong], truth[wrong])
    return Inspection(tree, len(chosen), split, per_node(truth, found, tree), branches, examples)


def _tested_images(config: Config, data: LabelledImages) -> tuple[str, NDArray[np.int64]]:
    """Return what the run was tested on: the test split, else the server's validation images."""
    if data.split_counts.get("test"):
        return "test", data.split_indices("test")
    validation = server_validation(config, data)
    if not len(validation):
        raise RunError(f"{data.name} has no images the run was tested on")
    return "validation", validation


def branches_of(
    truth: NDArray[np.int64], predicted: NDArray[np.int64], tree: Taxonomy
) -> tuple[Branch, ...]:
    """Count per inner node the samples that reached it and those that took the right child."""
    found = []
    for node in tree.internal.tolist():
        arrived = _arrived(node, truth, predicted, tree)
        if arrived.any():
            wrong = wrong_at(node, truth, predicted, tree)
            count = int(arrived.sum())
            found.append(Branch(node, count, count - len(wrong)))
    return tuple(sorted(found, key=lambda branch: (branch.accuracy, branch.node)))


def wrong_at(
    node: int, truth: NDArray[np.int64], predicted: NDArray[np.int64], tree: Taxonomy
) -> NDArray[np.int64]:
    """Return the samples that rightly reached a node and then took the wrong child, or none."""
    table, below = tree.ancestor_table, int(tree.depth[node]) + 1
    parted = table[truth, below] != table[predicted, below]
    return np.flatnonzero(_arrived(node, truth, predicted, tree) & parted)


def _arrived(
    node: int, truth: NDArray[np.int64], predicted: NDArray[np.int64], tree: Taxonomy
) -> NDArray[np.bool_]:
    inside = tree.is_ancestor(node, truth) & (truth != node) & tree.is_ancestor(node, predicted)
    return np.asarray(inside)


def worst(branches: Sequence[Branch]) -> list[Branch]:
    """Return the branches to show: the worst with enough samples and at least one mistake."""
    bad = [b for b in branches if b.arrived >= _FEWEST_SAMPLES and b.right < b.arrived]
    return bad[:_WORST]


def _examples(
    model: TrainedModel,
    data: LabelledImages,
    numbers: NDArray[np.int64],
    truths: NDArray[np.int64],
) -> tuple[Example, ...]:
    tree = model.taxonomy
    with one_thread():
        predictions = model.predict(data.images[numbers])
    return tuple(
        Example(
            tuple(tree.names[n] for n in tree.path(int(truth))),
            prediction,
            picture(data.images[number]),
        )
        for number, truth, prediction in zip(numbers, truths, predictions, strict=True)
    )


def picture(pixels: NDArray[np.uint8]) -> str:
    """Return an image as a PNG in a data: URI, made smaller where it is large."""
    content = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    image = Image.fromarray(np.ascontiguousarray(content)).convert("RGB")
    image.thumbnail((_LARGEST_SIDE, _LARGEST_SIDE))
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


@dataclass(frozen=True, eq=False)
class Sites:
    """What each client knows of H."""

    names: tuple[str, ...]
    known: NDArray[np.bool_]  # [clients, nodes]

    def label_depths(self, tree: Taxonomy) -> NDArray[np.int64]:
        """Return the depth of the label each client writes for each leaf [clients, leaves]."""
        return tree.depth[project_known(tree, self.known).labels].astype(np.int64)


def sites_of(config: Config, data: LabelledImages, tree: Taxonomy) -> Sites:
    """Return what the clients of a run know, as the run itself derives it."""
    if config.knowledge == "inferred":
        clients = prepare(config).federation.clients
        return Sites(tuple(c.name for c in clients), np.stack([c.knows for c in clients]))
    given = config.partition == "manifest"
    count = len(data.client_names) if given else config.clients
    knowledge = client_knowledge(config, data, [np.empty(0, np.int64)] * count)
    names = data.client_names if given else knowledge.client_names
    known = knowledge.on(tree)
    rows = [knowledge.rows_of(client) for client in range(count)]
    return Sites(tuple(names), np.stack([known[own].any(axis=0) for own in rows]))

"""A closer look at one finished run: where in the taxonomy its model goes wrong, on which images.

All nodes are those of H, the taxonomy the model works with.
"""

from __future__ import annotations

import base64
import io
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedgrain.arithmetic import one_thread
from fedgrain.config.config import Config
from fedgrain.images.images import LabelledImages
from fedgrain.knowledge import project_known
from fedgrain.models.label_check import wrote_as_client
from fedgrain.models.trained_model import Prediction, TrainedModel
from fedgrain.preparation.client_knowledge import client_knowledge
from fedgrain.preparation.prepare import as_used, prepare, prepare_from
from fedgrain.scoring.breakdown import NodeScores, per_node
from fedgrain.sections.answers import Answers, Watch, no_watch, predict_again
from fedgrain.sections.branches import Branch, branches_of, worst, wrong_at
from fedgrain.sections.sites_section import SiteLabels
from fedgrain.taxonomy import Taxonomy
from fedgrain.trunks import TrunkSpec

_EXAMPLES = 4  # images of each bad branch
_LARGEST_SIDE = 96  # of an example, in pixels


@dataclass(frozen=True)
class Example:
    """A test image that took the wrong child: what it is, and the path predicted for it."""

    truth: tuple[str, ...]  # names from the root
    predicted: Prediction
    picture: str  # a data: URI


@dataclass(frozen=True, eq=False)
class Inspection:
    """One run's model on its tested images."""

    tested: Answers
    scores: NodeScores
    branches: tuple[Branch, ...]  # the worst first
    examples: dict[int, tuple[Example, ...]]  # by node of the worst branches; none without images

    @property
    def taxonomy(self) -> Taxonomy:
        """H, whose nodes all of this is about."""
        return self.tested.taxonomy


def inspect(
    model: TrainedModel,
    config: Config,
    data: LabelledImages,
    *,
    images: bool = True,
    watch: Watch = no_watch,
) -> Inspection:
    """Predict the tested images again and find where the model goes wrong."""
    tested = predict_again(model, config, data, watch)
    found = inspection_of(tested)
    if images:
        truth = tested.truth_in_h
        for branch in worst(found.branches):
            wrong = wrong_at(branch.node, truth, tested.found_in_h, tested.taxonomy)[:_EXAMPLES]
            shown = _examples(model, data, tested.numbers[wrong], truth[wrong])
            found.examples[branch.node] = shown
    return found


def inspection_of(tested: Answers) -> Inspection:
    """Find where in the taxonomy predictions go wrong; without examples."""
    pairs = tested.truth_in_h, tested.found_in_h
    tree = tested.taxonomy
    return Inspection(tested, per_node(*pairs, tree), branches_of(*pairs, tree), {})


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
    count = len(data.client_names) if given else config.clients or 0
    knowledge = client_knowledge(config, data, [np.empty(0, np.int64)] * count)
    names = data.client_names if given else knowledge.client_names
    known = knowledge.on(tree)
    rows = [knowledge.rows_of(client) for client in range(count)]
    return Sites(tuple(names), np.stack([known[own].any(axis=0) for own in rows]))


def site_labels(config: Config, data: LabelledImages, trunk: TrunkSpec | None) -> list[SiteLabels]:
    """Return the labels the clients of a run trained and validated with, as it derives them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run has said it
        clients = prepare_from(config, as_used(config, data), trunk).federation.clients
    nothing = np.empty(0, np.int64)
    return [
        SiteLabels(
            client.name,
            client.train.labels,
            nothing if client.validation is None else client.validation.labels,
            client.knows,
            wrote_as_client(client, data),
        )
        for client in clients
    ]

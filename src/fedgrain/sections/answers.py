"""The tested images of a finished run: what they are, and what its model says of them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedgrain.arithmetic import one_thread
from fedgrain.calibration.guarantee import deepest_safe, greedy_path, path_probabilities
from fedgrain.config.config import Config
from fedgrain.errors import PredictionError, RunError
from fedgrain.heads import DecoupledModel
from fedgrain.images.images import LabelledImages
from fedgrain.models.trained_model import TrainedModel
from fedgrain.preparation.prepare import server_validation
from fedgrain.runs.evaluate import predicted_nodes, truths
from fedgrain.scoring.metrics import comparable
from fedgrain.scoring.rules import predict
from fedgrain.taxonomy import Taxonomy

Nodes = NDArray[np.int64]
Watch = Callable[[int, int], None]  # called with the images done and all images

_MOST_IMAGES = 10_000  # evenly spaced
_MOST_BY_BRANCH = 1_000  # with a net for each branch all P of an image cost much more than a path
_AT_ONCE = 512  # images between two calls of the watch
GUARANTEES = (0.8, 0.9, 0.95)  # that are checked, where the model can give them


@dataclass(frozen=True, eq=False)
class Answers:
    """Images with their labels and the leaf predicted for each; all arrays are [images]."""

    taxonomy: Taxonomy  # H
    full_taxonomy: Taxonomy
    split: str
    numbers: Nodes  # of the images in the data set
    truth: Nodes  # of H_full
    found: Nodes  # of H_full, cut back where the truth is coarse
    truth_in_h: Nodes
    found_in_h: Nodes
    probability: NDArray[np.float64]  # [images, depths of H]: along the predicted path; or nan
    guaranteed: Mapping[float, Nodes] = field(default_factory=dict)  # of H, by guarantee; or -1
    calibrated_on: int = 0  # images

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def in_full(self) -> NDArray[np.bool_]:
        """Which images are labelled in full, with a leaf."""
        return np.asarray(self.full_taxonomy.is_leaf(self.truth))


def no_watch(done: int, total: int) -> None:
    """Show no progress."""


def predict_again(
    model: TrainedModel, config: Config, data: LabelledImages, watch: Watch = no_watch
) -> Answers:
    """Predict the tested images of a run again, at most ``_MOST_IMAGES`` of them."""
    split, chosen = _tested_images(config, data)
    chosen = spaced(chosen, _MOST_IMAGES)
    tree, full = model.taxonomy, model.full_taxonomy
    with one_thread():
        leaves, probability, guaranteed = _predicted(model, data, chosen, watch)
    truth = truths(model, data, chosen).astype(np.int64)
    in_h = full.nearest_in(tree)[truth].astype(np.int64)
    return Answers(
        taxonomy=tree,
        full_taxonomy=full,
        split=split,
        numbers=chosen,
        truth=truth,
        found=comparable(leaves, truth, tree, full),
        truth_in_h=in_h,
        found_in_h=comparable(leaves, in_h, tree, tree),
        probability=probability,
        guaranteed=guaranteed,
        calibrated_on=0 if model.calibration is None else model.calibration.images,
    )


def _predicted(
    model: TrainedModel, data: LabelledImages, chosen: Nodes, watch: Watch
) -> tuple[Nodes, NDArray[np.float64], dict[float, Nodes]]:
    """Return the likeliest leaf of each image, P of the nodes on the path to it, and safe nodes."""
    tree, total = model.taxonomy, len(chosen)
    by_branch = isinstance(model.net, DecoupledModel)
    leaves = np.full(total, -1, np.int64)
    inputs = model.inputs(data)
    if by_branch:
        for rows in _parts(np.arange(total)):
            leaves[rows] = predicted_nodes(model, inputs, chosen[rows], "leaf", None)
            watch(int(rows[-1]) + 1, total)
    probability = np.full((total, tree.ancestor_table.shape[1]), np.nan)
    thresholds = _thresholds(model)
    guaranteed = {guarantee: np.full(total, -1, np.int64) for guarantee in thresholds}
    for rows in _parts(spaced(np.arange(total), _MOST_BY_BRANCH if by_branch else total)):
        table = np.concatenate(
            [block.cpu().numpy() for block in model.log_prob_blocks(inputs, chosen[rows])]
        )
        if not by_branch:
            leaves[rows] = predict(table, tree, "leaf")
            watch(int(rows[-1]) + 1, total)
        paths = tree.ancestor_table[leaves[rows]]  # [images, depths], -1 below the leaf
        logs = np.take_along_axis(table, np.maximum(paths, 0), axis=1).astype(np.float64)
        probability[rows] = np.where(paths < 0, np.nan, np.exp(logs))
        if thresholds:
            greedy = greedy_path(table, tree)
            along = path_probabilities(table, greedy, tree)
            for guarantee, threshold in thresholds.items():
                guaranteed[guarantee][rows] = deepest_safe(greedy, along, threshold)
    return leaves, probability, guaranteed


def _thresholds(model: TrainedModel) -> dict[float, float]:
    """Return the threshold of each guarantee for which there are enough calibration images."""
    found: dict[float, float] = {}
    if model.calibration is not None:
        for guarantee in GUARANTEES:
            with suppress(PredictionError):
                found[guarantee] = model.calibration.nodes.threshold(guarantee, model.taxonomy)
    return found


def _parts(numbers: Nodes) -> Iterator[Nodes]:
    """Divide numbers into parts after which progress is shown."""
    for start in range(0, len(numbers), _AT_ONCE):
        yield numbers[start : start + _AT_ONCE]


def spaced(numbers: Nodes, most: int) -> Nodes:
    """Return at most this many of the numbers, evenly spaced."""
    if len(numbers) <= most:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, most).round().astype(np.int64)]


def _tested_images(config: Config, data: LabelledImages) -> tuple[str, Nodes]:
    """Return what the run was tested on: the test split, else the server's validation images."""
    if data.split_counts.get("test"):
        return "test", data.split_indices("test")
    validation = server_validation(config, data)
    if not len(validation):
        raise RunError(f"{data.name} has no images the run was tested on")
    return "validation", validation

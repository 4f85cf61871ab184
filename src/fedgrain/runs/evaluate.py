"""Score a trained model on any data set whose classes its taxonomy holds (method, section 8)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgrain.errors import RunError
from fedgrain.heads import DecoupledModel
from fedgrain.images.images import LabelledImages
from fedgrain.models.trained_model import Images, TrainedModel
from fedgrain.scoring.breakdown import per_class
from fedgrain.scoring.metrics import comparable, hierarchical_scores
from fedgrain.scoring.rules import check_rule, predict
from fedgrain.scoring.summary import Summary, score


def evaluate(
    model: TrainedModel,
    data: LabelledImages,
    split: str = "test",
    rule: str = "leaf",
    threshold: float | None = None,
) -> dict[str, Any]:
    """Return the scores of the model over one split of a data set."""
    chosen = data.split_indices(split)
    if not len(chosen):
        raise RunError(f"{data.name}: the split {split!r} has no images")
    if data.images.shape[1:] != model.image_shape:
        raise RunError(
            f"{data.name} has images of shape {list(data.images.shape[1:])}, but the model takes "
            f"{list(model.image_shape)}; load them at that size"
        )
    truth = truths(model, data, chosen)
    nodes = predicted_nodes(model, model.inputs(data), chosen, rule, threshold)
    return asdict(scores_of(model, nodes, truth))


def class_rows(
    model: TrainedModel, data: LabelledImages, chosen: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Return the scores of each class among the chosen images; predictions are leaves."""
    tree, truth = model.full_taxonomy, truths(model, data, chosen)
    nodes = predicted_nodes(model, model.inputs(data), chosen, "leaf", None)
    found = per_class(truth, comparable(nodes, truth, model.taxonomy, tree), tree)
    return [
        {
            "id": tree.ids[node],
            "name": tree.names[node],
            "depth": int(tree.depth[node]),
            "images": int(found.samples[place]),
            "hr": float(found.hr[place]),
            "hp": float(found.hp[place]),
            "hf": float(found.hf[place]),
            "accuracy": float(found.accuracy[place]),
        }
        for place, node in enumerate(found.nodes.tolist())
    ]


def image_rows(
    model: TrainedModel,
    data: LabelledImages,
    chosen: NDArray[np.int64],
    rule: str = "leaf",
    threshold: float | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each of the chosen images: its label, the predicted node, and the scores."""
    full, tree = model.full_taxonomy, model.taxonomy
    truth, found = truths(model, data, chosen), list[tuple[int, float]]()
    for table in model.log_prob_blocks(model.inputs(data), chosen):
        nodes = predict(table, tree, rule, threshold, full)
        chance = table.exp().cpu().numpy()[np.arange(len(nodes)), nodes]
        found += zip(nodes.tolist(), chance.tolist(), strict=True)
    nodes = np.array([node for node, _ in found], dtype=np.int64)
    scores = hierarchical_scores(truth, comparable(nodes, truth, tree, full), full)
    return [
        {
            "image": int(chosen[place]),
            "label": full.ids[truth[place]],
            "label_name": full.names[truth[place]],
            "predicted": tree.ids[node],
            "predicted_name": tree.names[node],
            "probability": chance,
            **{name: float(getattr(scores, name)[place]) for name in ("hr", "hp", "hf")},
        }
        for place, (node, chance) in enumerate(found)
    ]


def truths(
    model: TrainedModel, data: LabelledImages, chosen: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the classes of the chosen images as nodes of the model's H_full."""
    missing = [node for node in data.taxonomy.ids if node not in model.full_taxonomy]
    if missing:
        raise RunError(f"{data.name}: class {missing[0]!r} is not in the model's taxonomy")
    return data.taxonomy.numbers_in(model.full_taxonomy)[data.labels[chosen]]


def scores_of(model: TrainedModel, nodes: ArrayLike, truth: ArrayLike) -> Summary:
    """Score predicted nodes of the model's H against truths of its H_full."""
    return score(nodes, truth, model.taxonomy, model.full_taxonomy)


def predicted_nodes(
    model: TrainedModel,
    images: Images,
    chosen: NDArray[np.int64],
    rule: str,
    threshold: float | None,
) -> NDArray[np.int64]:
    """Return a node of H per chosen image, a block at a time."""
    check_rule(rule, threshold)
    found = []
    if rule == "leaf" and isinstance(model.net, DecoupledModel) and model.keeps_leaves:
        for block in model.blocks(chosen):
            found.append(model.net.best_leaf(model.block(images, block)).leaf.cpu().numpy())
    else:
        for table in model.log_prob_blocks(images, chosen):
            found.append(predict(table, model.taxonomy, rule, threshold, model.full_taxonomy))
    return np.concatenate(found)

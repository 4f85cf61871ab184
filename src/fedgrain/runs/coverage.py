"""Whether a guarantee is kept, and probabilities mean what they say, on images with labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.data.images import LabelledImages
from fedgrain.errors import RunError
from fedgrain.models.answers import Answer, Question, answers
from fedgrain.models.trained_model import TrainedModel
from fedgrain.runs.evaluate import truths
from fedgrain.scoring.calibration import reliability_by_depth
from fedgrain.taxonomy import Taxonomy

Nodes = NDArray[np.int64]


def trust_of(
    model: TrainedModel, data: LabelledImages, split: str, guarantee: float, *, sets: bool = False
) -> dict[str, Any]:
    """Return the share of answers that hold the truth: in all, per depth, class and site.

    Only images labelled with a leaf count: whether an answer holds another truth is not known.
    """
    wanted = Question(guarantee=guarantee, sets=sets)
    chosen = data.split_indices(split)
    tree, full = model.taxonomy, model.full_taxonomy
    truth = full.nearest_in(tree)[truths(model, data, chosen)].astype(np.int64)
    full_truth = full.is_leaf(truths(model, data, chosen))
    chosen, truth = chosen[full_truth], truth[full_truth]
    if not len(chosen):
        raise RunError(f"{data.name}: the split {split!r} has no images labelled with a leaf")
    tables = [t.cpu().numpy() for t in model.log_prob_blocks(model.inputs(data), chosen)]
    table = np.concatenate(tables)
    given, _ = answers(table, wanted, tree, full, model.calibration)
    held = np.array([_holds(one, int(t), tree) for one, t in zip(given, truth, strict=True)])
    nodes = np.array([one.node for one in given])
    size = np.array([_size(one, tree) for one in given])
    return {
        "guarantee": guarantee,
        "images": len(chosen),
        "coarse_truths_left_out": int((~full_truth).sum()),
        "covered": float(held.mean()),
        "leaf_answers": float(tree.is_leaf(nodes).mean()),
        "mean_leaves": float(size.mean()),
        **held_shares(held, nodes, truth, data, chosen, tree),
        "calibration_error": [
            {"depth": depth, "images": found.samples, "error": found.error}
            for depth, found in reliability_by_depth(table, truth, tree).items()
        ],
    }


def held_shares(
    held: NDArray[np.bool_],
    nodes: Nodes,
    truth: Nodes,
    data: LabelledImages,
    chosen: Nodes,
    tree: Taxonomy,
) -> dict[str, list[dict[str, Any]]]:
    """Return the share of answers that hold the truth, by depth of the answer, class and site."""
    sites = None if data.clients is None else data.clients[chosen]
    return {
        "per_depth": list(_shares(tree.depth[nodes], held, "depth", str)),
        "per_class": list(_shares(truth, held, "class", tree.names.__getitem__)),
        "per_site": list(_shares(sites, held, "site", data.client_names.__getitem__)),
    }


def _holds(answer: Answer, truth: int, tree: Taxonomy) -> bool:
    return any(tree.is_ancestor(node, truth) for node in answer.members or (answer.node,))


def _size(answer: Answer, tree: Taxonomy) -> int:
    """Return how many leaves an answer leaves open."""
    return int(tree.leaf_counts[list(answer.members or (answer.node,))].sum())


def _shares(
    groups: Any, held: NDArray[np.bool_], name: str, spoken: Any
) -> Iterator[dict[str, Any]]:
    for group in () if groups is None else np.unique(groups).tolist():
        if group < 0:  # an image of no site
            continue
        own = held[np.asarray(groups) == group]
        yield {name: spoken(group), "images": len(own), "covered": float(own.mean())}


def trust_lines(found: dict[str, Any]) -> list[str]:
    """Say it in lines of text."""
    lines = [
        f"guarantee {found['guarantee']:g}: {found['covered']:.4f} of {found['images']} answers "
        f"hold the truth; {found['leaf_answers']:.1%} are one leaf, {found['mean_leaves']:.2f} "
        "leaves are left open in the mean"
    ]
    for key, name in (("per_depth", "depth"), ("per_site", "site")):
        shares = (f"{row[name]} {row['covered']:.3f} ({row['images']})" for row in found[key])
        if found[key]:
            lines.append(f"held per {name}  {', '.join(shares)}")
    worst = sorted(found["per_class"], key=lambda row: row["covered"])[:3]
    spoken = (f"{row['class']} {row['covered']:.3f} ({row['images']})" for row in worst)
    lines.append(f"lowest classes  {', '.join(spoken)}")
    errors = (f"{row['error']:.3f}" for row in found["calibration_error"])
    return [*lines, f"calibration error per depth  {', '.join(errors)}"]

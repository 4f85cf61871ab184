"""Whether a guarantee is kept, and probabilities mean what they say, on images with labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import RunError
from fedgrain.folders.labels import folded, unaccented
from fedgrain.images.images import LabelledImages
from fedgrain.models.answers import Answer, Question, answers, possible_leaves
from fedgrain.models.trained_model import TrainedModel
from fedgrain.runs.evaluate import truths
from fedgrain.scoring.calibration import reliability_by_depth
from fedgrain.taxonomy import Taxonomy

Nodes = NDArray[np.int64]
Lists = Mapping[str, tuple[str, ...]]  # ids of what is possible, by site; "" for all others


def trust_of(
    model: TrainedModel,
    data: LabelledImages,
    split: str,
    guarantee: float,
    *,
    sets: bool = False,
    only: Lists | None = None,
) -> dict[str, Any]:
    """Return the share of answers that hold the truth: in all, per depth, class and site.

    Only images labelled with a leaf count: whether an answer holds another truth is not known; and,
    where ``only`` lists what is possible, those whose label is.
    """
    wanted = Question(guarantee=guarantee, sets=sets)
    chosen = data.split_indices(split)
    tree, full = model.taxonomy, model.full_taxonomy
    truth = full.nearest_in(tree)[truths(model, data, chosen)].astype(np.int64)
    full_truth = full.is_leaf(truths(model, data, chosen))
    inside = possible_at(model, data, chosen, truth, only)
    counted = full_truth & inside
    chosen, truth = chosen[counted], truth[counted]
    if not len(chosen):
        where = "" if only is None else ", and possible at its site"
        raise RunError(f"{data.name}: the split {split!r} has no image labelled with a leaf{where}")
    tables = [t.cpu().numpy() for t in model.log_prob_blocks(model.inputs(data), chosen)]
    table = np.concatenate(tables)
    given = _answered(model, table, wanted, groups_of(data, chosen, only))
    held = np.array([_holds(one, int(t), tree) for one, t in zip(given, truth, strict=True)])
    nodes = np.array([one.node for one in given])
    size = np.array([_size(one, tree) for one in given])
    return {
        "guarantee": guarantee,
        "images": len(chosen),
        "coarse_truths_left_out": int((~full_truth).sum()),
        "impossible_left_out": int((full_truth & ~inside).sum()),
        "covered": float(held.mean()),
        "leaf_answers": float(tree.is_leaf(nodes).mean()),
        "mean_leaves": float(size.mean()),
        **held_shares(held, nodes, truth, data, chosen, tree),
        "calibration_error": [
            {"depth": depth, "images": found.samples, "error": found.error}
            for depth, found in reliability_by_depth(table, truth, tree).items()
        ],
    }


def _answered(
    model: TrainedModel,
    table: NDArray[Any],
    wanted: Question,
    groups: Iterable[tuple[Nodes, tuple[str, ...] | None]],
) -> list[Answer]:
    """Answer images group by group, and put the probabilities of the answers into the table."""
    given = [Answer(0)] * len(table)
    trees = model.taxonomy, model.full_taxonomy
    for rows, ids in groups:
        found, table[rows] = answers(
            table[rows], replace(wanted, only=ids), *trees, model.calibration
        )
        for row, one in zip(rows.tolist(), found, strict=True):
            given[row] = one
    return given


def groups_of(
    data: LabelledImages, chosen: Nodes, only: Lists | None
) -> Iterator[tuple[Nodes, tuple[str, ...] | None]]:
    """Yield the places of images that share a list of what is possible, and the list.

    A site without a list of its own has the list of all, under the name ""; or no list.
    """
    if only is None or data.clients is None or set(only) == {""}:
        yield np.arange(len(chosen)), None if only is None else _everything(only)
        return
    sites = data.clients[chosen]
    for site in np.unique(sites).tolist():
        name = data.client_names[site] if site >= 0 else ""
        yield np.flatnonzero(sites == site), only.get(name, only.get(""))


def by_sites_of(data: LabelledImages, only: Lists, where: object) -> Lists:
    """Return lists under the names that sites have in the data, spelled alike or nearly so.

    A list of a site that the data lacks is refused; of a site without a list there is a warning.
    """
    if data.clients is None or set(only) == {""}:
        return only
    found: dict[str, tuple[str, ...]] = {}
    for site, nodes in only.items():
        name = _site_named(site, data.client_names) if site else ""
        if name is None:
            raise RunError(
                f"{where}: it lists the site {site!r}, of which {data.name} has no images, only of "
                f"{', '.join(data.client_names)}; correct the name, or take the site out"
            )
        found[name] = tuple(dict.fromkeys((*found.get(name, ()), *nodes)))
    free = [name for name in data.client_names if name not in found]
    if free and "" not in found:
        warnings.warn(
            f"{where}: it has no list for {', '.join(free)}, where everything counts as possible; "
            "add one, or rows without a client for all other sites",
            stacklevel=2,
        )
    return found


def _site_named(site: str, names: Sequence[str]) -> str | None:
    """Return the one name that a site's is, else in another case, else without accents."""
    for spelled in (str, folded, unaccented):
        same = [name for name in names if spelled(name) == spelled(site)]
        if len(same) == 1:
            return same[0]
    return None


def _everything(only: Lists) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node for nodes in only.values() for node in nodes))


def possible_at(
    model: TrainedModel, data: LabelledImages, chosen: Nodes, truth: Nodes, only: Lists | None
) -> NDArray[np.bool_]:
    """Mask the images whose truth, a node of H, lies wholly in what is possible at their site."""
    inside = np.ones(len(chosen), np.bool_)
    first, end = model.taxonomy.leaf_ranges
    for rows, ids in groups_of(data, chosen, only):
        if ids is not None:
            mask = possible_leaves(ids, model.taxonomy, model.full_taxonomy)
            running = np.concatenate(([0], np.cumsum(mask)))
            own = truth[rows]
            inside[rows] = running[end[own]] - running[first[own]] == end[own] - first[own]
    return inside


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
    if found["impossible_left_out"]:
        lines.append(
            f"left out: {found['impossible_left_out']} images of classes not possible here"
        )
    for key, name in (("per_depth", "depth"), ("per_site", "site")):
        shares = (f"{row[name]} {row['covered']:.3f} ({row['images']})" for row in found[key])
        if found[key]:
            lines.append(f"held per {name}  {', '.join(shares)}")
    worst = sorted(found["per_class"], key=lambda row: row["covered"])[:3]
    spoken = (f"{row['class']} {row['covered']:.3f} ({row['images']})" for row in worst)
    lines.append(f"lowest classes  {', '.join(spoken)}")
    errors = (f"{row['error']:.3f}" for row in found["calibration_error"])
    return [*lines, f"calibration error per depth  {', '.join(errors)}"]

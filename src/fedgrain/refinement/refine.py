"""Refine a manifest: a proposal for every coarse label of its training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrain.data.model_labels import model_annotator
from fedgrain.errors import DataError
from fedgrain.folders.image_paths import ImagePath, find_images
from fedgrain.folders.labels import Labels
from fedgrain.images.images import LabelledImages
from fedgrain.models.answers import possible_leaves
from fedgrain.models.model_folder import load
from fedgrain.models.predict_files import ModelPlace, read_block, work_on_files
from fedgrain.models.trained_model import TrainedModel
from fedgrain.refinement.chains import chains_of
from fedgrain.refinement.gain import gains
from fedgrain.refinement.label_origins import (
    MODEL,
    OriginRows,
    Row,
    read_origins,
    refuse_same,
    without_pixels,
    write_origins,
)
from fedgrain.refinement.label_readings import SiteReading, read_labels
from fedgrain.refinement.proposals import Chains, Proposals, propose
from fedgrain.taxonomy.tree import Taxonomy

_BLOCK = 64  # files per task
Ints = NDArray[np.int64]
_Wanted = tuple[Ints, tuple[str, ...] | None]  # labels of files, and ids of what is possible
Watch = Callable[[Iterator["_Seen"], int], Iterator["_Seen"]]  # shows progress


@dataclass(frozen=True)
class Refining:
    """How to refine: the reading of labels, what to take, and where the model is."""

    place: ModelPlace
    accept: float | None = None
    reading: str = "marginal"
    knowledge: Path | None = None
    allow_links: bool = False
    only: tuple[str, ...] | None = None  # ids of what is possible here


@dataclass
class Refined:
    """What was found, in numbers."""

    rows: int
    coarse: int  # labels of training rows that leave the class open
    proposed: int = 0
    taken: int = 0
    leaves: int = 0  # of those taken
    problems: list[tuple[str, str]] = field(default_factory=list)  # files that could not be read
    guaranteed: bool = False  # the model is calibrated


@dataclass(frozen=True)
class _Proposal:
    """What is proposed for one row."""

    node: int  # of H
    probability: float
    guarantee: float
    gain: float
    taken: bool


@dataclass(frozen=True, eq=False)
class _Seen:
    """What the model sees in one file."""

    path: str
    problem: str
    leaves: NDArray[np.float32]  # log P of the leaves under its label
    chain: Ints
    guarantees: NDArray[np.float64]


def refine_manifest(
    manifest: str | Path,
    out: str | Path,
    asked: Refining,
    *,
    workers: int | str = "auto",
    watch: Watch = lambda seen, count: seen,
) -> Refined:
    """Write a manifest with a proposal for every coarse label of a training row.

    Labels of validation and test rows stay as they are: scores are taken against what people wrote.
    """
    if asked.accept is not None and not 0.5 < asked.accept <= 1.0:
        raise DataError(f"--accept is a probability above 0.5 and at most 1, not {asked.accept:g}")
    refuse_same(Path(manifest), Path(out))
    place = asked.place
    model = load(place.folder, trust_code=place.trust_code, net_weights=place.net_weights)
    origins = read_origins(manifest, model.full_taxonomy, before_model=True)
    data = without_pixels(origins, model.full_taxonomy)
    tops = data.taxonomy.nearest_in(model.taxonomy)[data.labels].astype(np.int64)
    allowed = possible_in(model, asked.only)
    coarse = _coarse_rows(model, data, allowed)
    files = find_images([origins.path], allow_links=asked.allow_links)
    looked = work_on_files(place, _blocks(files, coarse, tops, asked.only), _look, workers=workers)
    seen = dict(zip(coarse.tolist(), watch(looked, len(coarse)), strict=True))
    refined = Refined(origins.count, len(coarse), guaranteed=model.calibration is not None)
    refined.problems = [(one.path, one.problem) for one in seen.values() if one.problem]
    readable = {row: one for row, one in seen.items() if not one.problem}
    tables = {row: one.leaves for row, one in readable.items()}
    sites = read_labels(asked.reading, model, data, tables, asked.knowledge)
    found = _proposals(model, data, tops, readable, sites, asked.accept, allowed)
    write_origins(out, _rows(origins, model, found, refined), origins.path.parent)
    return refined


def possible_in(model: TrainedModel, only: tuple[str, ...] | None) -> NDArray[np.bool_]:
    """Mask the leaves of H that are possible; all without a list."""
    if only is None:
        return np.ones(len(model.taxonomy.leaves), np.bool_)
    return possible_leaves(only, model.taxonomy, model.full_taxonomy)


def _blocks(
    files: Sequence[ImagePath], rows: Ints, tops: Ints, only: tuple[str, ...] | None
) -> list[tuple[Sequence[ImagePath], _Wanted]]:
    """Divide the files of some rows into tasks, each with the labels of its files."""
    parts = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
    return [([files[row] for row in part], (tops[part], only)) for part in parts]


def candidates_below(tree: Taxonomy, full: Taxonomy, label: int) -> NDArray[np.bool_]:
    """Return which leaves of H lie strictly below a label of the full tree [leaves of H]."""
    leaves = tree.numbers_in(full)[tree.leaves]
    return np.asarray(full.is_ancestor(label, leaves) & (leaves != label))


def _coarse_rows(model: TrainedModel, data: LabelledImages, allowed: NDArray[np.bool_]) -> Ints:
    """Return the training rows whose label has a possible leaf of the model below it."""
    train = data.split_indices("train") if "train" in data.split_names else np.empty(0, np.int64)
    open_labels = [
        label
        for label in np.unique(data.labels[train]).tolist()
        if (candidates_below(model.taxonomy, data.taxonomy, label) & allowed).any()
    ]
    return np.asarray(train[np.isin(data.labels[train], open_labels)], np.int64)


def _look(model: TrainedModel, files: Sequence[ImagePath], wanted: _Wanted) -> list[_Seen]:
    """Return what the model sees in files with these labels."""
    tops, only = wanted
    problems, pixels = read_block(model, files)
    tree = model.taxonomy
    table = np.empty((0, len(tree)))
    if len(pixels):
        table = model.node_log_probs(pixels).cpu().numpy()
    first, end = tree.leaf_ranges
    chains = chains_of(model, table, None if only is None else possible_in(model, only))
    nothing = np.empty(0)
    found, place = [], 0
    for file, problem, top in zip(files, problems, tops.tolist(), strict=True):
        if problem:
            none = nothing.astype(np.int64)
            found.append(_Seen(file.path, problem, nothing.astype(np.float32), none, nothing))
            continue
        own = table[place, tree.leaves[first[top] : end[top]]].astype(np.float32)
        found.append(_Seen(file.path, "", own, chains.nodes[place], chains.guarantees[place]))
        place += 1
    return found


def _proposals(
    model: TrainedModel,
    data: LabelledImages,
    tops: Ints,
    seen: dict[int, _Seen],
    sites: Sequence[SiteReading],
    accept: float | None,
    allowed: NDArray[np.bool_],
) -> dict[int, _Proposal]:
    """Return what is proposed for each row that was seen.

    Rows with the same label and writer are proposed together; a row of no site is read by its label
    alone.
    """
    place = {
        int(row): (number, int(who))
        for number, site in enumerate(sites)
        for row, who in zip(site.rows, site.who, strict=True)
    }
    groups: dict[tuple[int, int, int], list[int]] = {}
    for row in sorted(seen):
        groups.setdefault((*place.get(row, (-1, 0)), int(data.labels[row])), []).append(row)
    rows = [row for members in groups.values() for row in members]
    parts = []
    for (number, who, label), members in groups.items():
        top = int(tops[members[0]])
        below = candidates_below(model.taxonomy, data.taxonomy, label)
        weights = (below & allowed).astype(np.float64)
        own = weights * sites[number].weights(who, top) if number >= 0 else weights
        weights = own if own.any() else weights  # a label that its writer could not write
        parts.append(_proposed(model.taxonomy, top, weights, [seen[m] for m in members], accept))
    if not rows:
        return {}
    nodes, chances, guarantees, entropies, taken = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("nodes", "probabilities", "guarantees", "entropies", "taken")
    )
    columns = (nodes, chances, guarantees, gains(nodes, entropies), taken)
    each = zip(*(column.tolist() for column in columns), strict=True)
    return {row: _Proposal(*values) for row, values in zip(rows, each, strict=True)}


def _proposed(
    tree: Taxonomy,
    top: int,
    weights: NDArray[np.float64],
    seen: Sequence[_Seen],
    accept: float | None,
) -> Proposals:
    first, end = (int(edge[top]) for edge in tree.leaf_ranges)
    chains = Chains(
        np.stack([one.chain for one in seen]), np.stack([one.guarantees for one in seen])
    )
    tables = np.stack([one.leaves for one in seen])
    return propose(tree, top, weights[first:end], tables, accept, chains)


def _rows(
    origins: OriginRows, model: TrainedModel, found: dict[int, _Proposal], refined: Refined
) -> Iterator[Row]:
    spelled, full = Labels(model.full_taxonomy), model.full_taxonomy
    numbers = model.taxonomy.numbers_in(full)
    for place, row in enumerate(origins.rows):
        new = {**row, "proposal": "", "probability": "", "guarantee": "", "gain": ""}
        if place in found:
            one = found[place]
            name = spelled.spelled(int(numbers[one.node]))
            new.update(proposal=name, probability=_down(one.probability), gain=f"{one.gain:.4g}")
            if refined.guaranteed:
                new["guarantee"] = _down(one.guarantee)
            refined.proposed += 1
            if one.taken:
                depth = int(full.depth[numbers[one.node]])
                new.update(label=name, annotator=model_annotator(depth), source=MODEL)
                refined.taken += 1
                refined.leaves += bool(model.taxonomy.is_leaf(one.node))
        yield new


def _down(share: float) -> str:
    """Return a share with four digits, never more than it is."""
    return f"{int(share * 10_000) / 10_000:.4f}"

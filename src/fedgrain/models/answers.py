"""From log P of nodes to answers: a rule, or a guarantee; restricted, rolled up, in sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.calibration.guarantee import guaranteed_nodes
from fedgrain.calibration.node_sets import guaranteed_sets
from fedgrain.calibration.record import Calibration
from fedgrain.calibration.restriction import leaves_below, restricted
from fedgrain.errors import PredictionError
from fedgrain.scoring.rules import check_rule, predict
from fedgrain.taxonomy import Taxonomy

Table = NDArray[np.floating[Any]]
Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class Question:
    """What is asked of a model besides a rule.

    ``only`` are ids of nodes that are possible; ``level`` is the depth in the full taxonomy at
    which answers end; ``known_share`` is the share of images of the model's own classes that
    are still answered when everything that looks strange is called *not in this taxonomy*.
    """

    rule: str = "leaf"
    threshold: float | None = None
    guarantee: float | None = None
    sets: bool = False
    only: tuple[str, ...] | None = None
    level: int | None = None
    known_share: float | None = None


@dataclass(frozen=True)
class Answer:
    """A node of H; or a set of them, over which it lies; or that it is none of them."""

    node: int
    members: tuple[int, ...] = ()  # of a set
    strange: bool = False
    strangeness: float | None = None  # from 0 to 1, where it was asked for


def answers(
    table: Table,
    wanted: Question,
    tree: Taxonomy,
    full: Taxonomy,
    calibration: Calibration | None,
) -> tuple[list[Answer], Table]:
    """Return an answer per row, and the probabilities it is given with."""
    check_wanted(wanted)
    allowed = None if wanted.only is None else possible_leaves(wanted.only, tree, full)
    shown = table if allowed is None else restricted(table, tree, allowed)
    if wanted.guarantee is None:
        nodes = _by_rule(shown, wanted, tree, full)
        found = [Answer(int(node)) for node in nodes]
    else:
        kept = _needed(calibration)
        found = _guaranteed(table, wanted, tree, kept, allowed)
        if wanted.level is not None:
            cut = _cut(tree, full, wanted.level)
            found = [
                Answer(int(cut[one.node]), tuple(dict.fromkeys(int(cut[m]) for m in one.members)))
                for one in found
            ]
    if wanted.known_share is not None:
        scores, strange = _needed(calibration).how_strange(table, tree, wanted.known_share)
        found = [
            replace(Answer(0, strange=True) if odd else one, strangeness=score)
            for one, odd, score in zip(found, strange.tolist(), scores.tolist(), strict=True)
        ]
    return found, shown


def check_wanted(wanted: Question) -> None:
    """Refuse settings that contradict each other."""
    check_rule(wanted.rule, wanted.threshold)
    if wanted.guarantee is not None and wanted.rule != "leaf":
        raise PredictionError("a guarantee decides how far down an answer goes; give no other rule")
    if wanted.sets and wanted.guarantee is None:
        raise PredictionError("sets need a guarantee, such as --guarantee 0.9")
    if wanted.level is not None and wanted.level < 1:
        raise PredictionError(f"a level is a depth from 1 on, not {wanted.level}")


def _needed(calibration: Calibration | None) -> Calibration:
    if calibration is None:
        raise PredictionError(
            "the model has no calibration, so nothing can be guaranteed; give it one with: "
            "fedgrain calibrate RUN --manifest CSV"
        )
    return calibration


def _guaranteed(
    table: Table,
    wanted: Question,
    tree: Taxonomy,
    kept: Calibration,
    allowed: NDArray[np.bool_] | None,
) -> list[Answer]:
    assert wanted.guarantee is not None
    counts = kept.sets if wanted.sets else kept.nodes
    threshold = counts.threshold(wanted.guarantee, tree, allowed)
    if not wanted.sets:
        found = guaranteed_nodes(table, tree, threshold, allowed)
        return [Answer(int(node)) for node in found]
    sets = guaranteed_sets(table, tree, threshold, allowed)
    return [Answer(_over(members, tree), tuple(members.tolist())) for members in sets]


def _over(members: Nodes, tree: Taxonomy) -> int:
    return int(tree.lca(members.min()[None], members.max()[None])[0])


def _by_rule(table: Table, wanted: Question, tree: Taxonomy, full: Taxonomy) -> Nodes:
    """Apply the rule; at a level the likeliest node there, for the rule `leaf`."""
    if wanted.level is None:
        return predict(table, tree, wanted.rule, wanted.threshold, full)
    cut = _cut(tree, full, wanted.level)
    if wanted.rule == "leaf":
        at_level = np.unique(cut[tree.leaves])
        return np.asarray(at_level[table[:, at_level].argmax(1)])
    return np.asarray(cut[predict(table, tree, wanted.rule, wanted.threshold, full)])


def _cut(tree: Taxonomy, full: Taxonomy, level: int) -> Nodes:
    """For each node of H, its deepest ancestor-or-self whose depth in H_full is at most a level."""
    depth = full.depth[tree.numbers_in(full)]
    return tree.nearest(depth <= level).astype(np.int64)


@lru_cache(maxsize=4)
def possible_leaves(ids: tuple[str, ...], tree: Taxonomy, full: Taxonomy) -> NDArray[np.bool_]:
    """Mask the leaves of H that lie below the given nodes, of H or H_full."""
    nodes, inside = [], tree.numbers_in(full)
    for node in ids:
        if node in tree:
            nodes.append(tree.index(node))
        elif node in full:  # coarsened away: what is below it
            at = full.index(node)
            nodes += np.flatnonzero(full.is_ancestor(at, inside)).tolist()
        else:
            raise PredictionError(f"{node!r} is not in the model's taxonomy; remove it")
    mask = leaves_below(nodes, tree)
    if not mask.any():
        raise PredictionError("nothing is possible: the list has no class; name at least one")
    return mask


def nodes_named(names: Sequence[tuple[str, str]], full: Taxonomy) -> tuple[str, ...]:
    """Return the ids of nodes given by id or name, each with its place in a file."""
    by_name: dict[str, list[str]] = {}
    for node, name in zip(full.ids, full.names, strict=True):
        by_name.setdefault(name.casefold(), []).append(node)
    found = []
    for where, text in names:
        own = [text] if text in full else by_name.get(text.casefold(), [])
        if len(own) != 1:
            why = "is not in the model's taxonomy" if not own else f"names {len(own)} nodes"
            raise PredictionError(f"{where}: {text!r} {why}; write the id of a node")
        found += own
    return tuple(dict.fromkeys(found))

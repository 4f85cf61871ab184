"""From probabilities of nodes to one node per sample (method, section 7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from fedgrain.catalogue import RULES
from fedgrain.errors import PredictionError
from fedgrain.heads import Head
from fedgrain.heads.base import at_least_float32
from fedgrain.heads.branches import past_single_children
from fedgrain.heads.chunks import run_in_chunks, samples_at_once
from fedgrain.scoring.metrics import Nodes, Values, cut_back, hierarchical_scores, numbers_in
from fedgrain.taxonomy.tree import Taxonomy


def predict(
    log_probs: Tensor | NDArray[Any],
    taxonomy: Taxonomy,
    rule: str = "leaf",
    threshold: float | None = None,
    full_taxonomy: Taxonomy | None = None,
) -> Nodes:
    """Return one node per sample of ``log_probs`` [samples, nodes].

    `leaf`: the likeliest leaf (the first among equals). `majority`: the most specific node with
    P > 0.5. `threshold`: the most specific node with P >= threshold. `expected-hf`: the node whose
    HF, on ``full_taxonomy`` (*default*: the taxonomy itself), is highest in the mean over the
    leaves, each with its probability. A row is judged by itself.

    Most specific is the fewest leaves under it, then the fewest only children below it (a species
    comes before a genus that holds nothing else), then the highest P, then the first id. P and the
    threshold are compared as numbers of float32's 24 binary digits, whatever the type of the table.
    """
    table = _table(log_probs, taxonomy)
    check_rule(rule, threshold)
    if rule == "leaf":
        likeliest = table[:, taxonomy.leaves].argmax(1)
        return np.asarray(taxonomy.leaves[likeliest], dtype=np.int64)
    if rule == "expected-hf":
        size = samples_at_once(len(taxonomy))
        parts = [table[start : start + size] for start in range(0, max(1, len(table)), size)]
        found = [_highest_expected_hf(part, taxonomy, full_taxonomy or taxonomy) for part in parts]
        return np.concatenate(found)
    best, node = _best_by_specificity(table, taxonomy)  # [samples, groups]
    above = best > 0.5 if threshold is None else best >= _rounded(threshold)
    return np.asarray(node[np.arange(len(node)), above.argmax(1)])


def check_rule(rule: str, threshold: float | None) -> None:
    """Refuse a rule that does not exist, and a threshold without its rule."""
    if rule not in RULES:
        raise PredictionError(f"there is no rule {rule!r}; choose one of {', '.join(RULES)}")
    if (rule == "threshold") != (threshold is not None):
        raise PredictionError("give a threshold with the rule threshold, and with no other")
    if threshold is not None and not 0.0 < threshold <= 1.0:
        raise PredictionError(f"a threshold lies above 0 and at most at 1, not {threshold}")


def node_log_probs(net: nn.Module, head: Head, images: Tensor) -> Tensor:
    """Return log P of all nodes [samples, nodes] for images [samples, channels, height, width].

    The same bits for an image alone and inside any batch (see :mod:`fedgrain.heads.chunks`).
    """
    logits = run_in_chunks(net, images)
    head.check(logits)
    with torch.no_grad():
        return head.node_log_probs(logits)


@dataclass(frozen=True)
class OperatingCurve:
    """Mean scores as the threshold falls: from the root for everyone to a leaf for everyone.

    Entry i holds for thresholds above ``threshold[i + 1]`` and up to ``threshold[i]``, that one
    included: given to :func:`predict` it has exactly these scores.
    """

    threshold: Values  # falling, from 1, above 0
    hr: Values
    hp: Values
    hf: Values

    def at(self, threshold: float) -> tuple[float, float, float]:
        """Return HR, HP and HF with the rule `threshold`."""
        check_rule("threshold", threshold)
        place = int(np.searchsorted(-self.threshold, -_rounded(threshold), side="right")) - 1
        return float(self.hr[place]), float(self.hp[place]), float(self.hf[place])


def operating_curve(
    log_probs: Tensor | NDArray[Any] | Iterable[Tensor | NDArray[Any]],
    taxonomy: Taxonomy,
    truth: ArrayLike,
    full_taxonomy: Taxonomy,
) -> OperatingCurve:
    """Return the scores of the rule `threshold` at every threshold, exactly (truths of H_full).

    ``log_probs`` is a table [samples, nodes], or blocks of its rows where the whole is too large.
    As the threshold falls, a sample moves only to more specific nodes, each time at the P of the
    node it moves to; the curve is the running sum of what those moves change.
    """
    truths, seen, found = np.asarray(truth), 0, []
    for block in [log_probs] if isinstance(log_probs, Tensor | np.ndarray) else log_probs:
        table = _table(block, taxonomy)
        own = truths[seen : seen + len(table)] if truths.ndim else truths
        seen += len(table)
        if own.shape == (len(table),):
            found.append(_moves(table, taxonomy, own, full_taxonomy))
    if truths.shape != (seen,) or not seen:
        raise PredictionError(f"give one truth per sample: {truths.size} for {seen}")
    level, *changes = (np.concatenate(column) for column in zip(*found, strict=True))
    falling = np.argsort(-level, kind="stable")
    level = level[falling]
    last = np.flatnonzero(np.append(np.diff(level) != 0, True))
    curves = [np.cumsum(change[falling])[last] / seen for change in changes]
    return OperatingCurve(level[last], *curves)


def _moves(
    table: NDArray[np.floating[Any]], taxonomy: Taxonomy, truths: Nodes, full_taxonomy: Taxonomy
) -> tuple[Values, ...]:
    """Return at which P samples move, and by how much each move changes HR, HP and HF."""
    best, node = _best_by_specificity(table, taxonomy)
    moves = best > 0.0  # no threshold is low enough for the others
    moves[:, 1:] &= best[:, 1:] > np.maximum.accumulate(best, axis=1)[:, :-1]
    sample, group = np.nonzero(moves)  # a sample's stations, most specific first
    station = numbers_in(full_taxonomy, taxonomy)[node[sample, group]]
    station = cut_back(truths[sample], station, full_taxonomy)
    scores = hierarchical_scores(truths[sample], station, full_taxonomy)
    coarsest = np.append(np.diff(sample) != 0, True)  # where a sample starts, at threshold 1
    return best[sample, group], *(
        values - np.where(coarsest, 0.0, np.append(values[1:], 0.0))
        for values in (scores.hr, scores.hp, scores.hf)
    )


def fit_temperature(logits: Tensor, labels: Tensor, head: Head) -> float:
    """Return the T for which ``logits / T`` fit the validation labels best (mean -log P(label)).

    cond-sigmoid takes its own loss: without negatives the best P would be 1 everywhere. The search
    is a grid over T from 1/64 to 64, then golden section around its best.
    """
    if not len(labels):
        raise PredictionError("a temperature is fitted on validation data, but there is none")
    head.check(logits)
    head.check_labels(labels)
    exact = logits.detach().double()
    losses = head.marginal_losses if "marginal" in head.supervisions else head.sample_losses

    def cost(log_temperature: float) -> float:
        with torch.no_grad():
            return float(losses(exact / math.exp(log_temperature), labels).mean())

    reach, step = math.log(64.0), math.log(2.0) / 2
    grid = [-reach + step * i for i in range(round(2 * reach / step) + 1)]
    best = min(grid, key=cost)
    return math.exp(_golden_section(cost, best - step, best + step))


def _golden_section(cost: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of a function with one valley between ``low`` and ``high``."""
    ratio = (math.sqrt(5.0) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    cost_left, cost_right = cost(left), cost(right)
    while high - low > 1e-6:
        if cost_left <= cost_right:
            high, right, cost_right = right, left, cost_left
            left = high - ratio * (high - low)
            cost_left = cost(left)
        else:
            low, left, cost_left = left, right, cost_right
            right = low + ratio * (high - low)
            cost_right = cost(right)
    return (low + high) / 2


def _best_by_specificity(
    table: NDArray[np.floating[Any]], taxonomy: Taxonomy
) -> tuple[Values, Nodes]:
    """Return the highest P, and its node, among the nodes that are equally specific.

    Groups [samples, groups] go from the most specific to the root, whose P is 1; among equal P the
    first id.
    """
    nodes, starts = _by_specificity(taxonomy)
    ordered = table[:, nodes]
    best = np.empty((len(table), len(starts)))
    node = np.empty((len(table), len(starts)), dtype=np.int64)
    rows = np.arange(len(table))
    for group, (start, end) in enumerate(zip(starts, [*starts[1:], len(nodes)], strict=True)):
        found = start + ordered[:, start:end].argmax(1)
        node[:, group] = nodes[found]
        best[:, group] = ordered[rows, found]
    best = _rounded(np.exp(np.minimum(best, 0.0)))
    best[:, -1] = 1.0
    return best, node


@lru_cache(maxsize=8)
def _by_specificity(taxonomy: Taxonomy) -> tuple[Nodes, list[int]]:
    """Return the nodes, most specific first, then by id; and where each group of equals starts.

    A node over the same leaves as its only child is less specific than that child. By how many
    only children there are below it, and not by depth: between a leaf at depth 3 and one at depth 5
    P decides.
    """
    leaves = taxonomy.leaf_counts
    above_fork = past_single_children(taxonomy) - np.arange(len(taxonomy))
    by_id = np.empty(len(taxonomy), dtype=np.int64)
    by_id[sorted(range(len(taxonomy)), key=taxonomy.ids.__getitem__)] = np.arange(len(taxonomy))
    nodes = np.lexsort((by_id, above_fork, leaves))
    new = (np.diff(leaves[nodes], prepend=-1) != 0) | (np.diff(above_fork[nodes], prepend=-1) != 0)
    nodes.flags.writeable = False
    return nodes, np.flatnonzero(new).tolist()


def _rounded(probability: Values | float) -> Values:
    """Round to the 24 binary digits of float32, with the range of float64.

    A table of logarithms holds a P of 0.5 only nearly, so that comparing exact numbers would let
    the last bit decide; and what the curve calls a threshold must be one for `predict` too.
    """
    mantissa, exponent = np.frexp(np.asarray(probability, dtype=np.float64))
    return np.asarray(np.ldexp(np.rint(mantissa * 2.0**24), exponent - 24))


def _highest_expected_hf(
    table: NDArray[np.floating[Any]], taxonomy: Taxonomy, full_taxonomy: Taxonomy
) -> Nodes:
    """Return the node of the best mean HF over the leaves; the first in order among equals.

    For truths of one depth, HF is the depth of the lca but for a factor that only the predicted
    node decides, and the mean of that depth is the sum of P along the path to the node. So the cost
    is (depths of leaves) x nodes, not leaves x nodes. No sum depends on how many samples there are.
    """
    numbers, depth = numbers_in(full_taxonomy, taxonomy), full_taxonomy.depth
    leaves = numbers[taxonomy.leaves]
    own = table[:, taxonomy.leaves].astype(np.float64)
    chance = np.exp(own - own.max(1, keepdims=True)).T  # [leaves, samples], up to a factor
    levels = [np.flatnonzero(depth == level) for level in range(1, int(depth.max()) + 1)]
    expected = np.zeros((len(taxonomy), len(table)))
    for leaf_depth in np.unique(depth[leaves]):
        running = np.zeros((len(full_taxonomy) + 1, len(table)))
        running[1 + leaves[depth[leaves] == leaf_depth]] = chance[depth[leaves] == leaf_depth]
        np.cumsum(running, axis=0, out=running)
        common = running[full_taxonomy.subtree_end] - running[:-1]  # a subtree is a slice
        common[0] = 0.0
        for nodes in levels:
            common[nodes] += common[full_taxonomy.parents[nodes]]
        expected += common[numbers] * (2.0 / (leaf_depth + depth[numbers]))[:, None]
    return np.asarray(expected.argmax(0), dtype=np.int64)


def _table(log_probs: Tensor | NDArray[Any], taxonomy: Taxonomy) -> NDArray[np.floating[Any]]:
    """Check log-probabilities and return them in float32 or float64."""
    if isinstance(log_probs, Tensor):
        log_probs = at_least_float32(log_probs.detach()).cpu().numpy()
    table = np.asarray(log_probs)
    if table.dtype not in (np.float32, np.float64):
        table = table.astype(np.float32 if table.dtype.itemsize <= 2 else np.float64)
    if table.ndim != 2 or table.shape[1] != len(taxonomy):
        raise PredictionError(
            f"log-probabilities must be [samples, {len(taxonomy)} nodes], not {list(table.shape)}"
        )
    broken = np.isnan(table).any(1)
    if broken.any():
        raise PredictionError(
            f"sample {int(np.flatnonzero(broken)[0])} has a probability that is "
            "not a number: training diverged; lower the learning rate"
        )
    return table

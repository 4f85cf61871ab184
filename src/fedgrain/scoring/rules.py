"""From probabilities of nodes to one node per sample (method, section 7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgrain.catalogue import RULES
from fedgrain.errors import PredictionError
from fedgrain.heads import Head
from fedgrain.heads.chunks import run_in_chunks, samples_at_once
from fedgrain.scoring.metrics import Nodes
from fedgrain.scoring.specificity import best_by_specificity, checked_table, rounded
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
    table = checked_table(log_probs, taxonomy)
    check_rule(rule, threshold)
    if rule == "leaf":
        likeliest = table[:, taxonomy.leaves].argmax(1)
        return np.asarray(taxonomy.leaves[likeliest], dtype=np.int64)
    if rule == "expected-hf":
        size = samples_at_once(len(taxonomy))
        parts = [table[start : start + size] for start in range(0, max(1, len(table)), size)]
        found = [_highest_expected_hf(part, taxonomy, full_taxonomy or taxonomy) for part in parts]
        return np.concatenate(found)
    best, node = best_by_specificity(table, taxonomy)  # [samples, groups]
    above = best > 0.5 if threshold is None else best >= rounded(threshold)
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


def _highest_expected_hf(
    table: NDArray[np.floating[Any]], taxonomy: Taxonomy, full_taxonomy: Taxonomy
) -> Nodes:
    """Return the node of the best mean HF over the leaves; the first in order among equals.

    For truths of one depth, HF is the depth of the lca but for a factor that only the predicted
    node decides, and the mean of that depth is the sum of P along the path to the node. So the cost
    is (depths of leaves) x nodes, not leaves x nodes. No sum depends on how many samples there are.
    """
    numbers, depth = taxonomy.numbers_in(full_taxonomy), full_taxonomy.depth
    leaves = numbers[taxonomy.leaves]
    own = table[:, taxonomy.leaves].astype(np.float64)
    chance = np.exp(own - own.max(1, keepdims=True))  # [samples, leaves], up to a factor
    expected = np.zeros((len(table), len(taxonomy)))
    for leaf_depth in np.unique(depth[leaves]):
        here = depth[leaves] == leaf_depth
        of_leaves = np.zeros((len(table), len(full_taxonomy)))
        of_leaves[:, leaves[here]] = chance[:, here]
        shared = full_taxonomy.sums_below(of_leaves)
        shared[:, 0] = 0.0  # the root counts for nothing
        common = full_taxonomy.sums_along_paths(shared)[:, numbers]
        expected += common * (2.0 / (leaf_depth + depth[numbers]))
    return np.asarray(expected.argmax(1), dtype=np.int64)

"""Sums along paths and under nodes, level by level (method, section 6).

Every head turns logits into probabilities of nodes with one of three sums: along the path from the
root (products of conditionals), over the children of a node (sibling softmax), or over everything
below a node. All work on the logarithm, take the largest term out first, and never subtract one
sum from another, so that float32 logits of magnitude 1e4 neither overflow nor cancel. Memory is
[batch, nodes]; the only Python loop is over the levels of the tree.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from fedgrain.taxonomy.tree import Taxonomy


class TreeSums(nn.Module):
    """Index tensors of a taxonomy, and the sums that use them. No parameters.

    Inside a sum, nodes are in level order: by depth, then by number. The children of one parent are
    neighbours there, and a level is a slice.
    """

    parents: Tensor  # [nodes], 0 for the root
    depth: Tensor  # [nodes], 0 for the root
    subtree_end: Tensor  # [nodes]
    leaves: Tensor  # [leaves]
    first_leaf: Tensor  # [nodes], position in leaves of the first leaf under a node
    end_leaf: Tensor  # [nodes]
    path: Tensor  # [nodes, max depth], the nodes from below the root to the node, then 0
    level_order: Tensor  # [nodes], nodes by depth
    level_rank: Tensor  # [nodes], where a node stands in level_order
    parent_in_level: Tensor  # [nodes] in level order: place of the parent inside its own level

    def __init__(self, taxonomy: Taxonomy) -> None:
        super().__init__()
        parents = np.maximum(taxonomy.parents, 0).astype(np.int64)
        order = np.concatenate(taxonomy.levels)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(taxonomy))
        starts = np.cumsum([0, *(len(level) for level in taxonomy.levels)])
        start_of_parent = starts[np.maximum(taxonomy.depth[order] - 1, 0)]
        first_leaf, end_leaf = taxonomy.leaf_ranges
        self.level_starts: list[int] = starts.tolist()
        for name, value in {
            "parents": parents,
            "depth": taxonomy.depth,
            "subtree_end": taxonomy.subtree_end,
            "leaves": taxonomy.leaves,
            "first_leaf": first_leaf,
            "end_leaf": end_leaf,
            "path": np.maximum(taxonomy.ancestor_table[:, 1:], 0),
            "level_order": order,
            "level_rank": rank,
            "parent_in_level": rank[parents[order]] - start_of_parent,
        }.items():
            self.register_buffer(name, torch.tensor(np.asarray(value, np.int64)), persistent=False)

    def along_paths(self, steps: Tensor) -> Tensor:
        """Sum ``steps`` [batch, nodes without root] from the root down: [batch, nodes], root 0.

        A child is its parent plus one step, in this order, so that steps of at most 0 never put a
        child above its parent, whatever the rounding.
        """
        ordered = steps.index_select(1, self.level_order[1:] - 1)
        level = steps.new_zeros(steps.shape[0], 1)
        levels = [level]
        for start, end in zip(self.level_starts[1:], self.level_starts[2:], strict=False):
            above = level.index_select(1, self.parent_in_level[start:end])
            level = above + ordered[:, start - 1 : end - 1]
            levels.append(level)
        return torch.cat(levels, 1).index_select(1, self.level_rank)

    def under_nodes(self, own: Tensor) -> Tensor:
        """Log-sum-exp of ``own`` [batch, nodes] over each node and everything below it.

        ``own`` may be -inf where a node holds nothing of its own, if anything below it does. A
        node is its largest term plus the logarithm of a sum of at least 1: never below a child.
        """
        ordered = own.index_select(1, self.level_order)
        starts = self.level_starts
        level = ordered[:, starts[-2] : starts[-1]]
        levels = [level]
        for depth in range(len(starts) - 3, -1, -1):
            mine = ordered[:, starts[depth] : starts[depth + 1]]
            parent = self.parent_in_level[starts[depth + 1] : starts[depth + 2]]
            parent = parent.expand(own.shape[0], -1)
            largest = mine.detach().scatter_reduce(1, parent, level.detach(), "amax")
            below = (level - largest.gather(1, parent)).exp()
            total = (mine - largest).exp().scatter_add(1, parent, below)
            level = total.log() + largest
            levels.append(level)
        return torch.cat(levels[::-1], 1).index_select(1, self.level_rank)

    def probabilities_under(self, own: Tensor) -> Tensor:
        """Log P of nodes from log-shares ``own``, which sum to 1; the root is exactly 0."""
        nodes = self.under_nodes(own)[:, 1:].clamp_max(0.0)
        return torch.nn.functional.pad(nodes, (1, 0))

    def sibling_log_softmax(self, logits: Tensor) -> Tensor:
        """Log-softmax of ``logits`` [batch, nodes without root] among the children of each node."""
        parent = self.parents[1:].expand(logits.shape[0], -1)
        largest = logits.new_full((logits.shape[0], len(self.parents)), -torch.inf)
        largest = largest.scatter_reduce(1, parent, logits.detach(), "amax")
        centred = logits - largest.gather(1, parent)
        total = torch.zeros_like(largest).scatter_add(1, parent, centred.exp())
        return centred - total.gather(1, parent).log()

    def on_path(self, labels: Tensor) -> Tensor:
        """Mask [batch, nodes]: the node is the label or one of its ancestors."""
        nodes = torch.arange(len(self.parents), device=labels.device)
        return (nodes <= labels[:, None]) & (labels[:, None] < self.subtree_end)

    def below(self, labels: Tensor) -> Tensor:
        """Mask [batch, nodes]: the node is the label or one of its descendants."""
        nodes = torch.arange(len(self.parents), device=labels.device)
        return (labels[:, None] <= nodes) & (nodes < self.subtree_end[labels, None])

    def lca_depths(self, path: Tensor) -> tuple[Tensor, Tensor]:
        """Depth of each node's lowest common ancestor with a path's end, and who is on the path.

        Both [batch, nodes], for paths [batch, depth] padded with 0. The subtree of a path's node is
        a slice: +1 where it starts, -1 where it ends, summed up.
        """
        on_path = path > 0
        marks = path.new_zeros(len(path), len(self.parents) + 1)
        marks.scatter_(1, path, on_path.long())
        starts = marks[:, :-1] > 0
        starts[:, 0] = True
        marks.scatter_add_(1, self.subtree_end[path], -on_path.long())
        return marks.cumsum(1)[:, :-1], starts

    def leaves_below(self, labels: Tensor) -> Tensor:
        """Mask [batch, leaves]: the leaf lies under the label (or is it)."""
        position = torch.arange(len(self.leaves), device=labels.device)
        first, end = self.first_leaf[labels, None], self.end_leaf[labels, None]
        return (first <= position) & (position < end)

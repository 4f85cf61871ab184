"""softmax-descendant: each ancestor against all it excludes (method, section 6; hiercls)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fedgrain.heads.base import at_least_float32
from fedgrain.heads.node_softmax import NodeSoftmax
from fedgrain.taxonomy.tree import Taxonomy


class SoftmaxDescendant(NodeSoftmax):
    """Weighted cross-entropies along the path, each against the nodes neither above nor below.

    What a node a on the path excludes is what leaves the path above it: the nodes whose lowest
    common ancestor with the label is less deep than a. So the nodes off the path are summed once,
    by that depth, and every a adds up the depths above its own.
    """

    name = "softmax-descendant"
    weights: Tensor  # [nodes], 1 / leaves under the node

    def __init__(self, taxonomy: Taxonomy) -> None:
        super().__init__(taxonomy)
        leaves = torch.tensor(taxonomy.leaf_counts, dtype=torch.float64)
        self.register_buffer("weights", leaves.reciprocal(), persistent=False)

    def sample_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the weighted cross-entropies along the path."""
        logits = at_least_float32(logits)
        path = self.sums.path[labels.long()]  # [batch, depth]
        excluded = self._sums_by_lca_depth(logits, path)  # [batch, depth]
        own = logits.gather(1, path)
        steps = path.shape[1]
        above = torch.ones(steps, steps, dtype=torch.bool, device=logits.device).tril()
        ahead = excluded[:, None, :] - own[:, :, None]  # [batch, step a, lca depth]
        ahead = functional.pad(ahead.masked_fill(~above, -torch.inf), (1, 0))
        weight = self.weights[path].to(logits.dtype).masked_fill(path == 0, 0.0)
        return (weight * ahead.logsumexp(2)).sum(1)

    def _sums_by_lca_depth(self, logits: Tensor, path: Tensor) -> Tensor:
        """Log-sum-exp of the logits off the path by depth of their lca with it [batch, depth].

        -inf where no node leaves the path at that depth.
        """
        batch, steps = path.shape
        depth, on_path = self.sums.lca_depths(path)
        group = depth.masked_fill(on_path, steps)  # nodes on the path go to a group of their own
        largest = logits.new_full((batch, steps + 1), -torch.inf)
        largest = largest.scatter_reduce(1, group, logits.detach(), "amax")
        centred = logits - largest.gather(1, group)
        total = torch.zeros_like(largest).scatter_add(1, group, centred.exp())[:, :steps]
        nobody = total.detach() == 0
        return (total.masked_fill(nobody, 1.0).log() + largest[:, :steps]).masked_fill(
            nobody, -torch.inf
        )

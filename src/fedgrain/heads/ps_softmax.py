"""ps-softmax: leaves share the logits of their ancestors (method, section 6; hiercls)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fedgrain.heads.base import at_least_float32
from fedgrain.heads.leaf_softmax import LeafSoftmax
from fedgrain.taxonomy.tree import Taxonomy


class PSSoftmax(LeafSoftmax):
    """A leaf's score is the sum of logits on its path; logit j belongs to node j + 1."""

    name = "ps-softmax"

    def __init__(self, taxonomy: Taxonomy) -> None:
        super().__init__(taxonomy, len(taxonomy) - 1)

    def leaf_scores(self, logits: Tensor) -> Tensor:
        """Add up each leaf's path as a bag of nodes: memory leaves x depth, and one fused sum."""
        logits = at_least_float32(logits)
        if torch.compiler.is_compiling():  # torch.export knows bags only of one batch size
            return self.sums.along_paths(logits).index_select(1, self.sums.leaves)
        paths = self.sums.path[self.sums.leaves]  # [leaves, depth], padded with the root
        by_node = functional.pad(logits, (1, 0)).t().contiguous()  # [nodes, batch]
        return functional.embedding_bag(paths, by_node, mode="sum", padding_idx=0).t()

"""What a label of one labeller stands for, as tensors (method, section 6)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from fedgrain.errors import HeadError
from fedgrain.knowledge.projection import Projection


class ProjectionTensors(nn.Module):
    """One labeller's row of a :class:`Projection`, ready for the projection likelihood.

    R(y) holds the leaves whose deepest known ancestor-or-self is y: for an internal node, the
    leaves under its unknown children. ``laziness`` eps mixes in the marginal likelihood: a leaf
    under y outside R(y) then counts with weight eps. A label whose R is empty is one the labeller
    could not have written; it counts as marginal (weight 1 for all leaves under it).
    """

    projected: Tensor  # [leaves], the label the labeller writes for each leaf
    empty: Tensor  # [nodes], no leaf projects to the node
    child_weight: Tensor  # [nodes], log weight of a node in the likelihood of its parent as label

    def __init__(self, projection: Projection, row: int = 0, laziness: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= laziness <= 1.0:
            raise HeadError(f"laziness is a share from 0 to 1, not {laziness}")
        self.laziness = laziness
        self.log_laziness = math.log(laziness) if laziness > 0 else -math.inf
        empty = ~projection.written[row]
        of_parent = empty[np.maximum(projection.taxonomy.parents, 0)]
        full_weight = ~projection.known[row] | of_parent
        weight = np.where(full_weight, 0.0, self.log_laziness).astype(np.float32)
        projected = projection.labels[row].astype(np.int64)
        self.register_buffer("projected", torch.tensor(projected), persistent=False)
        self.register_buffer("empty", torch.tensor(empty), persistent=False)
        self.register_buffer("child_weight", torch.tensor(weight), persistent=False)

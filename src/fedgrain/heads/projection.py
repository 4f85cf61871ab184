"""What a label of one client stands for (method, section 6, projection likelihood)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from fedgrain.errors import HeadError
from fedgrain.taxonomy.tree import BoolArray, Taxonomy


class Projection(nn.Module):
    """Which leaves each label of a client stands for, from one mask of known nodes.

    R(y) holds the leaves whose deepest known ancestor-or-self is y: for an internal node, the
    leaves under its unknown children. ``laziness`` eps mixes in the marginal likelihood: a leaf
    under y outside R(y) then counts with weight eps. A label whose R is empty is one the client
    could not have written; it counts as marginal (weight 1 for all leaves under it).
    """

    projected: Tensor  # [leaves], the label the client writes for each leaf
    empty: Tensor  # [nodes], no leaf projects to the node
    child_weight: Tensor  # [nodes], log weight of a node in the likelihood of its parent as label

    def __init__(self, taxonomy: Taxonomy, known: BoolArray, laziness: float = 0.0) -> None:
        super().__init__()
        mask = known_mask(taxonomy, known)
        if not 0.0 <= laziness <= 1.0:
            raise HeadError(f"laziness is a share from 0 to 1, not {laziness}")
        self.laziness = laziness
        self.log_laziness = math.log(laziness) if laziness > 0 else -math.inf
        projected = taxonomy.nearest(mask)[taxonomy.leaves].astype(np.int64)
        empty = np.ones(len(taxonomy), dtype=np.bool_)
        empty[projected] = False
        full_weight = ~mask | empty[np.maximum(taxonomy.parents, 0)]
        weight = np.where(full_weight, 0.0, self.log_laziness).astype(np.float32)
        self.register_buffer("projected", torch.tensor(projected), persistent=False)
        self.register_buffer("empty", torch.tensor(empty), persistent=False)
        self.register_buffer("child_weight", torch.tensor(weight), persistent=False)


def known_mask(taxonomy: Taxonomy, known: BoolArray) -> BoolArray:
    """Check a mask of known nodes: one entry per node, the root known, closed upwards."""
    mask = np.asarray(known)
    if mask.shape != (len(taxonomy),) or mask.dtype != np.bool_:
        raise HeadError(
            f"knowledge is a boolean mask over the {len(taxonomy)} nodes of the taxonomy, "
            f"not an array of {mask.dtype} with shape {list(mask.shape)}"
        )
    if not mask[0]:
        raise HeadError("the root must be known: set the first entry of the mask to true")
    orphans = np.flatnonzero(mask & ~mask[np.maximum(taxonomy.parents, 0)])
    if orphans.size:
        child = int(orphans[0])
        raise HeadError(
            f"knowledge must be closed upwards: {taxonomy.ids[child]!r} is known but its parent "
            f"{taxonomy.ids[taxonomy.parents[child]]!r} is not"
        )
    return mask

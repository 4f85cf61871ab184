"""What a mask of known nodes must satisfy: the root, and with a node all its ancestors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import FedgrainError
from fedgrain.taxonomy.tree import Taxonomy

BoolArray = NDArray[np.bool_]


def check_known_nodes(
    taxonomy: Taxonomy,
    known: BoolArray,  # [rows, nodes]
    error: type[FedgrainError],
    names: Sequence[str] | None = None,
) -> None:
    """Refuse masks that are not closed upwards, naming the row and the node.

    Without ``names`` the rows are labellers, by number.
    """
    if known.ndim != 2 or known.shape[1] != len(taxonomy) or known.dtype != np.bool_:
        raise error(
            f"knowledge is a boolean mask over the {len(taxonomy)} nodes of the taxonomy, "
            f"not an array of {known.dtype} with shape {list(known.shape)}"
        )
    who = names or [f"labeller {row}" for row in range(len(known))]
    for row in np.flatnonzero(~known[:, 0]).tolist():
        raise error(
            f"{who[row]} does not know the root {taxonomy.ids[0]!r}; everyone knows the root: "
            "add it"
        )
    orphans = known[:, 1:] & ~known[:, taxonomy.parents[1:]]
    for row, place in np.argwhere(orphans).tolist():
        child, parent = place + 1, taxonomy.parents[place + 1]
        raise error(
            f"{who[row]} knows {taxonomy.ids[child]!r} but not its parent "
            f"{taxonomy.ids[parent]!r}; add the parent or remove the child"
        )

"""Zero-shot: half of the leaf classes are never trained on (method, section 10).

The seen classes alone make H, the training and the validation images. An unseen class is scored by
its place in the H_full of all classes: how near the seen class predicted for it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import ConfigError
from fedgrain.images.images import LabelledImages
from fedgrain.randomness import numpy_generator
from fedgrain.scoring.metrics import mean_hf
from fedgrain.taxonomy import Taxonomy

_HIDDEN = "hidden"  # the split of unseen images that are not for testing


def seen_leaves(full_taxonomy: Taxonomy, seed: int) -> NDArray[np.bool_]:
    """Return a mask over the nodes of H_full: the seen half of its leaves (3 of 5)."""
    leaves = full_taxonomy.leaves
    order = numpy_generator(seed, "zero-shot classes").permutation(len(leaves))
    seen = np.zeros(len(full_taxonomy), dtype=np.bool_)
    seen[leaves[order[: (len(leaves) + 1) // 2]]] = True
    return seen


def seen_taxonomy(full_taxonomy: Taxonomy, seed: int) -> Taxonomy:
    """Return the full taxonomy restricted to the seen classes, single children contracted."""
    chosen = np.flatnonzero(seen_leaves(full_taxonomy, seed))
    return full_taxonomy.restrict(full_taxonomy.ids[n] for n in chosen).contract_single_children()


def hide_unseen(data: LabelledImages, seed: int) -> LabelledImages:
    """Move the unseen classes' images out of every split but test."""
    tree = data.taxonomy
    coarse = data.labels[~tree.is_leaf(data.labels)]
    if len(coarse):
        raise ConfigError(
            f"zero_shot needs a leaf class for every image, but {data.name} has {len(coarse)} "
            f"images labelled with inner nodes such as {tree.names[coarse[0]]!r}"
        )
    unseen = ~seen_leaves(tree, seed)[data.labels]
    test = data.split_names.index("test") if "test" in data.split_names else -1
    hidden = np.int8(len(data.split_names))
    splits = np.where(unseen & (data.splits != test), hidden, data.splits)
    return replace(data, splits=splits, split_names=(*data.split_names, _HIDDEN))


def seen_and_unseen_hf(
    nodes: NDArray[np.int64],
    truth: NDArray[np.int64],
    taxonomy: Taxonomy,
    full_taxonomy: Taxonomy,
    seed: int,
) -> dict[str, float | None]:
    """Return the mean HF of predicted nodes of H over the images of seen and of unseen classes."""
    seen = seen_leaves(full_taxonomy, seed)[truth]
    trees = taxonomy, full_taxonomy
    return {
        f"{name}_hf": mean_hf(nodes[chosen], truth[chosen], *trees) if chosen.any() else None
        for name, chosen in (("seen", seen), ("unseen", ~seen))
    }

"""Labels that are coarser than they could be, or wrong: for experiments (method, section 11)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedgrain.preparation.config import Config
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy import Taxonomy

Indices = NDArray[np.int64]


def with_faults(config: Config, taxonomy: Taxonomy, labels: Indices, client: int) -> Indices:
    """Return a client's labels with the faults that the config asks for; first the wrong ones."""
    if config.wrong_labels is not None:
        labels = _wrong(config, taxonomy, labels, client)
    return _lazy(config, taxonomy, labels, client) if config.lazy_labels else labels


def _lazy(config: Config, taxonomy: Taxonomy, labels: Indices, client: int) -> Indices:
    """Replace a share of the client's leaf labels by their parents."""
    generator = numpy_generator(config.seed, "lazy labels", client)
    lazy = _some_leaves(config.lazy_labels, taxonomy, labels, generator)
    written = labels.copy()
    written[lazy] = taxonomy.parents[labels[lazy]]
    return written


def _wrong(config: Config, taxonomy: Taxonomy, labels: Indices, client: int) -> Indices:
    """Replace leaf labels by wrong ones.

    ``siblings:SHARE``: that share of everyone's by random siblings that are leaves. ``shifted``:
    those of the first client by the next such sibling, as in a list read one line too low.
    ``spelling``: of each client's most frequent leaf all, by a leaf from another branch.
    """
    kind, _, share = str(config.wrong_labels).partition(":")
    generator, written = numpy_generator(config.seed, "wrong labels", client), labels.copy()
    if kind == "spelling":
        leaves = labels[np.isin(labels, taxonomy.leaves)]
        if len(leaves):
            often = int(np.bincount(leaves).argmax())
            others = taxonomy.leaves[taxonomy.parents[taxonomy.leaves] != taxonomy.parents[often]]
            if len(others):
                written[labels == often] = generator.choice(others)
        return written
    chosen = np.flatnonzero(np.isin(labels, taxonomy.leaves))
    if kind == "siblings":
        chosen = _some_leaves(float(share), taxonomy, labels, generator)
    elif client:
        return written
    for row in chosen.tolist():
        children = taxonomy.children(int(taxonomy.parents[labels[row]]))
        family = children[taxonomy.child_counts[children] == 0]
        if len(family) > 1:
            place = int(np.flatnonzero(family == labels[row])[0])
            step = 1 if kind == "shifted" else int(generator.integers(1, len(family)))
            written[row] = family[(place + step) % len(family)]
    return written


def _some_leaves(
    share: float, taxonomy: Taxonomy, labels: Indices, generator: np.random.Generator
) -> Indices:
    """Return a share of the places of labels at leaves, in random order."""
    at_leaves = np.flatnonzero(np.isin(labels, taxonomy.leaves))
    return generator.permutation(at_leaves)[: int(share * len(at_leaves) + 0.5)]

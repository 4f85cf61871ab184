"""Labels that are coarser than they could be, or wrong; clients that differ: for experiments.

Method, section 11.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedgrain.config.config import Config
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy import Taxonomy

Indices = NDArray[np.int64]

_IMBALANCE = 100.0  # how many images the first class of a long tail keeps for one of the last


def with_faults(config: Config, taxonomy: Taxonomy, labels: Indices, client: int) -> Indices:
    """Return a client's labels with the faults that the config asks for; first the wrong ones."""
    if config.wrong_labels is not None:
        labels = _wrong(config, taxonomy, labels, client)
    lazy = config.lazy_labels and not (config.mixed_clients and client % 3)
    return _lazy(config, taxonomy, labels, client) if lazy else labels


def with_long_tails(
    config: Config, classes: NDArray[np.int32], parts: list[Indices]
) -> list[Indices]:
    """Return everyone's images; in a mixed federation each third client keeps few of most classes.

    Classes, in an order of the client's own, keep a share of their images that falls from 1 to
    1/100 geometrically, as in the long-tailed CIFAR of Cui et al. (CVPR 2019).
    """
    if not config.mixed_clients:
        return parts
    found = list(parts)
    for client in range(2, len(parts), 3):
        generator = numpy_generator(config.seed, "long tail", client)
        own = generator.permutation(parts[client])
        _, places, counts = np.unique(classes[own], return_inverse=True, return_counts=True)
        order = generator.permutation(len(counts))
        kept = counts * _IMBALANCE ** (-order / max(len(counts) - 1, 1))
        by_class = np.argsort(places, kind="stable")
        rank = np.empty(len(own), np.int64)  # of an image among those of its class
        rank[by_class] = np.arange(len(own)) - np.repeat(np.cumsum(counts) - counts, counts)
        found[client] = np.sort(own[rank < np.floor(kept + 0.5)[places]])
    return found


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

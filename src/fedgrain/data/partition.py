"""Divide images: into train and validation, and among clients (method, section 10).

Every function returns image numbers in ascending order and uses its own random stream, so the same
seed gives the same parts on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import DataError
from fedgrain.randomness import numpy_generator

Indices = NDArray[np.int64]
Labels = NDArray[np.integer[Any]]


def split_validation(
    labels: Labels, share: float = 0.2, *, seed: int, names: Sequence[str] | None = None
) -> tuple[Indices, Indices]:
    """Split images into train and validation, the same share of every class.

    Per class the validation part is ``share`` of it, rounded, and both parts get at least one
    image; a class of a single image cannot be split and is an error. ``names`` (by label) are used
    in that error.
    """
    if not 0 < share < 1:
        raise DataError(f"the validation share must lie between 0 and 1, not {share}")
    labels = np.asarray(labels)
    classes, counts = np.unique(labels, return_counts=True)
    small = classes[counts < 2]
    if len(small):
        shown = ", ".join(str(number) if names is None else names[number] for number in small[:10])
        more = f" and {len(small) - 10} more" if len(small) > 10 else ""
        raise DataError(
            f"{len(small)} classes have a single image and cannot be split into train and "
            f"validation: {shown}{more}; add images, leave these classes out, name validation "
            "images yourself (split), or let the clients validate (--validation clients)"
        )
    wanted = np.clip(np.floor(counts * share + 0.5), 1, counts - 1).astype(np.int64)
    generator = numpy_generator(seed, "validation split")
    order = generator.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]  # shuffled within each class
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    validation = rank < np.repeat(wanted, counts)
    return np.sort(order[~validation]), np.sort(order[validation])


def partition_iid(count: int, clients: int, *, seed: int) -> list[Indices]:
    """Divide images evenly: a seeded permutation cut into equal parts (sizes differ by 1)."""
    _check_clients(count, clients)
    order = numpy_generator(seed, "iid partition").permutation(count)
    return [np.sort(part) for part in np.array_split(order, clients)]


def partition_dirichlet(
    labels: Labels, clients: int, concentration: float, *, seed: int
) -> list[Indices]:
    """Divide each class among clients by shares drawn from a Dirichlet distribution.

    A small ``concentration`` gives each class to few clients, a large one tends to equal shares.
    Every client gets at least one image: a client left with none takes one from the largest.
    """
    labels = np.asarray(labels)
    _check_clients(len(labels), clients)
    if not 1e-6 <= concentration < np.inf:
        raise DataError(f"the Dirichlet concentration must be at least 1e-6, not {concentration}")
    generator = numpy_generator(seed, "dirichlet partition")
    owner = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        shares = _dirichlet(generator, concentration, clients)
        ends = np.floor(np.cumsum(shares) * len(members) + 0.5).astype(np.int64)
        owner[members] = np.searchsorted(ends[:-1], np.arange(len(members)), side="right")
    parts = [np.flatnonzero(owner == client) for client in range(clients)]
    for client, part in enumerate(parts):
        if not len(part):
            largest = max(range(clients), key=lambda other: len(parts[other]))
            parts[client], parts[largest] = parts[largest][:1], parts[largest][1:]
    return parts


def partition_given(clients: NDArray[np.int32] | None, names: Sequence[str]) -> list[Indices]:
    """Divide images by the column ``client`` of a manifest, in the order of ``names``."""
    if clients is None:
        raise DataError(
            "the data names no clients; add a column 'client' to the manifest or choose "
            "the IID or Dirichlet partition"
        )
    missing = int(np.sum(clients < 0))
    if missing:
        raise DataError(
            f"{missing} of {len(clients)} images name no client; fill the column 'client' or "
            "choose the IID or Dirichlet partition"
        )
    return [np.flatnonzero(clients == number) for number in range(len(names))]


def _dirichlet(
    generator: np.random.Generator, concentration: float, clients: int
) -> NDArray[np.float64]:
    """Draw shares in log space: with a tiny concentration every plain gamma draw underflows.

    If G ~ Gamma(a + 1) and U is uniform, G U^(1/a) ~ Gamma(a).
    """
    logs = np.log(generator.standard_gamma(concentration + 1, clients))
    logs += np.log(1 - generator.random(clients)) / concentration
    shares = np.exp(logs - logs.max())
    normalised: NDArray[np.float64] = shares / shares.sum()
    return normalised


def _check_clients(count: int, clients: int) -> None:
    if clients < 1:
        raise DataError(f"there must be at least one client, not {clients}")
    if clients > count:
        raise DataError(
            f"{count} images cannot be divided among {clients} clients; use fewer clients"
        )

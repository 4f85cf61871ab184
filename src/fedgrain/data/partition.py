"""Divide images: into train and validation, and among clients (method, section 10).

Every function returns image numbers in ascending order and uses its own random stream, so the same
seed gives the same parts on every machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import DataError
from fedgrain.randomness import numpy_generator
from fedgrain.text import counted

Indices = NDArray[np.int64]
Labels = NDArray[np.integer[Any]]


def split_validation(
    labels: Labels, share: float = 0.2, *, seed: int, names: Sequence[str] | None = None
) -> tuple[Indices, Indices]:
    """Split images into train and validation, the same share of every class.

    Per class the validation part is ``share`` of it, rounded, and both parts get at least one
    image. The image of a class that has only one is trained on, with a warning that gives its name
    (``names``, by label). If no class has two, any images are held out, whatever their class.
    """
    if not 0 < share < 1:
        raise DataError(f"the validation share must lie between 0 and 1, not {share}")
    labels = np.asarray(labels)
    classes, counts = np.unique(labels, return_counts=True)
    single = classes[counts < 2]
    if len(single) == len(classes):
        return _split_any(len(labels), share, seed)
    if len(single):
        shown = ", ".join(str(number) if names is None else names[number] for number in single[:10])
        more = f" and {len(single) - 10} more" if len(single) > 10 else ""
        warnings.warn(
            f"{counted(len(single), 'class has', 'classes have')} a single image, which is trained "
            f"on and not held out to validate: {shown}{more}",
            stacklevel=2,
        )
    wanted = np.clip(np.floor(counts * share + 0.5), 1, counts - 1).astype(np.int64)
    generator = numpy_generator(seed, "validation split")
    order = generator.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]  # shuffled within each class
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    validation = rank < np.repeat(wanted, counts)
    return np.sort(order[~validation]), np.sort(order[validation])


def _split_any(count: int, share: float, seed: int) -> tuple[Indices, Indices]:
    """Hold out a share of images of which no two have the same class."""
    if count < 2:
        raise DataError(
            f"{counted(count, 'image')} to train on cannot be split into train and validation; add "
            "images, name validation images yourself (split), or let the clients validate "
            "(--validation clients)"
        )
    warnings.warn(
        f"every class has a single image: {share:.0%} of the images are held out to validate, and "
        "their classes are not trained; --validation clients holds out none",
        stacklevel=3,
    )
    order = numpy_generator(seed, "validation split").permutation(count)
    held_out = min(max(1, round(count * share)), count - 1)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


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

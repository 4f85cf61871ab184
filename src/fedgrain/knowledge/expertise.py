"""Which leaves each client knows: the even split and the top-up of Algorithm 1.

Every leaf is in exactly one client's part, so that some client can name it; then each part is
topped up to the same size. For one seed the known leaves grow as alpha falls, and they are the
same for every generator of knowledge, so that these can be compared client by client.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import KnowledgeError
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy.tree import Taxonomy

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

EXPERTISES = ("random", "coherent")
_LARGEST = 100_000_000  # most clients times leaves in memory
_TOLERANCE = 1e-9  # of alpha and of the number of leaves (method, section 5)
_SEEDS_PER_CLIENT = 2  # fields of expertise
_SHARPNESS = 16.0  # a leaf is drawn with weight W ** _SHARPNESS to the nearest seed


def _leaves_to_know(alpha: float, clients: int, leaves: int) -> int:
    """Return how many leaves each client knows: ceil((1 - alpha) * leaves), safe from rounding."""
    if clients < 1:
        raise KnowledgeError(f"there must be at least one client, not {clients}")
    largest = 1 - 1 / clients
    if not -_TOLERANCE <= alpha <= largest + _TOLERANCE:
        raise KnowledgeError(
            f"alpha is {alpha} but with {clients} client{'s' * (clients > 1)} it must lie between "
            f"0 and {largest:.6g} (1 - 1/clients), or no client would know some leaf; "
            "lower alpha or add clients"
        )
    wanted = math.ceil((1 - alpha) * leaves - _TOLERANCE)
    return min(leaves, max(wanted, math.ceil(leaves / clients)))


def draw_known_leaves(
    taxonomy: Taxonomy, clients: int, alpha: float, seed: int, expertise: str
) -> BoolArray:
    """Return the leaves each client knows [clients, leaves]: even split, then top-up.

    ``random`` is the paper's rule. ``coherent`` gives each client a few seed leaves and draws the
    rest by Wu-Palmer relatedness to the nearest of them.
    """
    count = _leaves_to_know(alpha, clients, len(taxonomy.leaves))
    if clients * len(taxonomy.leaves) > _LARGEST:
        raise KnowledgeError(
            f"{clients} clients times {len(taxonomy.leaves)} leaves are more than the limit of "
            f"{_LARGEST:,}; use fewer clients"
        )
    if seed < 0:
        raise KnowledgeError(f"the seed is {seed}; use a whole number from 0 up")
    if expertise == "random":
        attraction = np.zeros((clients, len(taxonomy.leaves)))
        known = _random_split(clients, len(taxonomy.leaves), seed)
    elif expertise == "coherent":
        known, attraction = _coherent_split(taxonomy, clients, seed)
    else:
        raise KnowledgeError(
            f"there is no expertise {expertise!r}; choose one of {', '.join(EXPERTISES)}"
        )
    for client in range(clients):
        generator = numpy_generator(seed, "knowledge top-up", client)
        keys = attraction[client] + generator.gumbel(size=len(taxonomy.leaves))
        keys[known[client]] = np.inf  # its own part first
        known[client, np.argsort(-keys, kind="stable")[:count]] = True
    return known


def _random_split(clients: int, leaves: int, seed: int) -> BoolArray:
    order = numpy_generator(seed, "knowledge split").permutation(leaves)
    part = np.zeros((clients, leaves), dtype=np.bool_)
    for client, members in enumerate(np.array_split(order, clients)):
        part[client, members] = True
    return part


def _coherent_split(taxonomy: Taxonomy, clients: int, seed: int) -> tuple[BoolArray, FloatArray]:
    """Split the leaves evenly by picking in turn, each client near its seeds.

    Returns the parts and the attraction _SHARPNESS * log W of each leaf to the nearest seed of each
    client: adding Gumbel noise and taking the largest draws without replacement by W ** _SHARPNESS.
    """
    generator = numpy_generator(seed, "knowledge coherent split")
    leaves = len(taxonomy.leaves)
    if clients > leaves:
        raise KnowledgeError(
            f"{clients} clients are more than the {leaves} leaf classes, and with coherent "
            f"expertise each needs one of its own; use at most {leaves} clients, or random"
        )
    seeds_each = min(_SEEDS_PER_CLIENT, leaves // clients)
    seeds = generator.permutation(leaves)[: clients * seeds_each].reshape(clients, seeds_each)
    nearest = [
        taxonomy.wu_palmer_of(own, taxonomy.leaves, root_depth=1).max(axis=0)
        for own in taxonomy.leaves[seeds]
    ]
    attraction = _SHARPNESS * np.log(nearest)
    part = np.zeros((clients, leaves), dtype=np.bool_)
    np.put_along_axis(part, seeds, True, axis=1)
    free = np.setdiff1d(np.arange(leaves), seeds)
    while free.size:  # a round: every client picks one, in a fresh order, until none is free
        for client in generator.permutation(clients)[: free.size]:
            pick = np.argmax(attraction[client, free] + generator.gumbel(size=free.size))
            part[client, free[pick]] = True
            free = np.delete(free, pick)
    return part, attraction

"""Random taxonomies for property tests."""

import numpy as np
from hypothesis import strategies as st

from fedgrain.taxonomy import Taxonomy


def tree_from(picks: list[int]) -> Taxonomy:
    """Hang node i + 1 from node picks[i] % (i + 1); ids do not follow the order of birth."""
    name = [f"{(7 * i) % 101:03d}-{i}" for i in range(len(picks) + 1)]
    return Taxonomy.from_edges(
        [(name[pick % (i + 1)], name[i + 1]) for i, pick in enumerate(picks)], root=name[0]
    )


def trees(max_nodes: int = 30, min_nodes: int = 1) -> st.SearchStrategy[Taxonomy]:
    """Random trees, single-child chains included."""
    picks = st.lists(st.integers(0, 10**6), min_size=min_nodes - 1, max_size=max_nodes - 1)
    return picks.map(tree_from)


def large_tree(nodes: int = 16_344, leaves: int = 10_000, seed: int = 0) -> Taxonomy:
    """Return a random tree in the shape of iNaturalist's: seven levels, every leaf at the last.

    Most nodes of the upper levels have one child, as in a genus of one species.
    """
    rng = np.random.default_rng(seed)
    inner = nodes - 1 - leaves
    sizes = [3, 13, 51, 273, 1103]  # kingdom to family, as in iNaturalist 2021
    sizes.append(inner - sum(sizes))
    sizes.append(leaves)
    edges, above = [], ["life"]
    for depth, size in enumerate(sizes):
        level = [f"{depth}-{rng.integers(10**9):09d}-{number}" for number in range(size)]
        weight = rng.pareto(1.0, len(above)) + 1e-3  # a few hold most, many hold one
        extra = rng.choice(len(above), size - len(above), p=weight / weight.sum())
        parents = [*range(len(above)), *extra.tolist()]  # everyone has a child
        edges += [(above[parent], node) for parent, node in zip(parents, level, strict=True)]
        above = level
    return Taxonomy.from_edges(edges)

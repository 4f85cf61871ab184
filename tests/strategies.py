"""Random taxonomies for property tests."""

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

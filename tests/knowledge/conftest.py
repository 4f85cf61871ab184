import pytest
from hypothesis import strategies as st

from fedgrain.taxonomy import Taxonomy


@st.composite
def random_trees(draw, most_nodes=24):
    """Any tree, single children and lone roots included: each node hangs from an earlier one."""
    count = draw(st.integers(1, most_nodes))
    parents = [draw(st.integers(0, node - 1)) for node in range(1, count)]
    edges = [(f"n{parent:02}", f"n{child:02}") for child, parent in enumerate(parents, start=1)]
    return Taxonomy.from_edges(edges, root="n00")


@st.composite
def random_wishes(draw):
    """A tree with a possible number of clients, alpha and seed for it."""
    tree = draw(random_trees())
    clients = draw(st.integers(1, len(tree.leaves)))
    alpha = draw(st.floats(0, 1) | st.just(1.0)) * (1 - 1 / clients)
    return tree, clients, alpha, draw(st.integers(0, 2**32))


@pytest.fixture(scope="session")
def trees():
    return random_trees()


@pytest.fixture(scope="session")
def wishes():
    return random_wishes()


@pytest.fixture(scope="session")
def animals():
    return Taxonomy.from_edges(
        [
            ("animal", "bird"),
            ("animal", "cat"),
            ("bird", "kite"),
            ("bird", "owl"),
            ("kite", "black kite"),
            ("kite", "red kite"),
        ]
    )

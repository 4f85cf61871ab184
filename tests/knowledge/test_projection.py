import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrain.knowledge import Knowledge, project, relational_neighbours
from fedgrain.taxonomy import coarsen, dataset_taxonomy


@st.composite
def coarse_cases(draw, wishes):
    """A generated knowledge and a coarse tree: some internal nodes of the full one are dropped."""
    tree, clients, alpha, seed = draw(wishes)
    knowledge = relational_neighbours(tree, clients, alpha, seed)
    kept = np.ones(len(tree), dtype=bool)
    for node in tree.internal[1:]:
        kept[node] = draw(st.booleans())
    return knowledge, tree.keep(kept)


@given(data=st.data())
@settings(deadline=None)
def test_projection(data, wishes):
    knowledge, coarse = data.draw(coarse_cases(wishes))
    projection = project(coarse, knowledge)
    known = knowledge.on(coarse)
    for row in range(len(known)):
        for node in range(len(coarse)):
            path = coarse.path(node)
            assert projection.of_nodes[row, node] == path[known[row, path]][-1]
        of_nodes = projection.of_nodes[row]
        assert np.array_equal(of_nodes[of_nodes], of_nodes)  # idempotent
        labels = projection.labels[row]
        assert coarse.is_ancestor(labels, coarse.leaves).all()
        stands_for = projection.stands_for(row)
        assert stands_for.shape == (len(coarse), len(coarse.leaves))
        assert stands_for.sum(axis=0).tolist() == [1] * len(coarse.leaves)  # a partition
        for node in range(len(coarse)):
            assert np.array_equal(stands_for[node], labels == node)
        assert not stands_for[~known[row]].any()


def test_by_hand(animals):
    known = np.isin(np.array(animals.ids), ["animal", "bird", "kite", "red kite"])
    projection = project(animals, Knowledge(animals, known[None], ("museum",)))
    leaves = [animals.ids[leaf] for leaf in animals.leaves]
    assert leaves == ["black kite", "red kite", "owl", "cat"]
    written = [animals.ids[label] for label in projection.labels[0]]
    assert written == ["kite", "red kite", "bird", "animal"]
    bird = projection.stands_for(0)[animals.index("bird")]
    assert bird.tolist() == [False, False, True, False]  # a bird, but no kite


def test_full_knowledge_writes_leaves():
    full = dataset_taxonomy("cifar100")
    coarse = coarsen(full, 8).taxonomy
    projection = project(coarse, relational_neighbours(full, 3, 0.0, 1))
    assert np.array_equal(projection.labels, np.tile(coarse.leaves, (3, 1)))

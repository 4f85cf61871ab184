import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrain.errors import KnowledgeError
from fedgrain.knowledge import (
    hidden_leaves,
    known_paths_only,
    relational,
    relational_neighbours,
)
from fedgrain.knowledge.expertise import draw_known_leaves
from fedgrain.knowledge.relational import Neighbours
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy import Taxonomy, dataset_taxonomy

GRAPHS = st.sampled_from(["complete", "tree"])
EXPERTISES = st.sampled_from(["random", "coherent"])


def literal_propagation(tree, known_leaves, graph, generator):
    """Algorithm 1 for one client, word for word, with its own Wu-Palmer."""
    paths = [tree.path(node).tolist() for node in range(len(tree))]

    def weight(i, j):
        shared = sum(a == b for a, b in zip(paths[i], paths[j], strict=False))
        return 2 * shared / (len(paths[i]) + len(paths[j]))

    def is_neighbour(i, j):
        return i != j and (graph == "complete" or tree.parents[i] == j or tree.parents[j] == i)

    known = {node for leaf in known_leaves for node in paths[leaf]}
    unlabeled = [node for node in tree.internal.tolist() if node not in known]
    p = [1.0 if node in known else 0.5 if node in unlabeled else 0.0 for node in range(len(tree))]
    while unlabeled:
        before = list(p)
        for position in generator.permutation(len(unlabeled)):
            i = unlabeled[position]
            near = [j for j in range(len(tree)) if is_neighbour(i, j)]
            p[i] = sum(weight(i, j) * p[j] for j in near) / sum(weight(i, j) for j in near)
        if max(abs(a - b) for a, b in zip(p, before, strict=True)) < 1e-6:
            break
    return np.array(p)


@given(data=st.data(), graph=GRAPHS, expertise=EXPERTISES)
@settings(deadline=None)
def test_it_is_algorithm_1_word_for_word(data, graph, expertise, wishes):
    tree, clients, alpha, seed = data.draw(wishes)
    made = relational_neighbours(tree, clients, alpha, seed, graph, expertise)
    drawn = draw_known_leaves(tree, clients, alpha, seed, expertise)
    neighbours = Neighbours.of(tree, graph)
    for client in range(clients):
        leaves = tree.leaves[drawn[client]]
        order = numpy_generator(seed, "knowledge propagation", client)
        expected = literal_propagation(tree, leaves.tolist(), graph, order)
        sure = np.isin(np.arange(len(tree)), [n for leaf in leaves for n in tree.path(leaf)])
        again = numpy_generator(seed, "knowledge propagation", client)
        got = neighbours.propagate(sure, again)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
        clear = np.abs(expected - 0.5) > 1e-9  # a tie may fall either way by rounding
        believed = {node for node in range(len(tree)) if got[node] >= 0.5}
        closed = {n for n in believed if believed.issuperset(tree.path(n).tolist())}
        assert set(np.flatnonzero(made.known[client])) == closed
        assert np.array_equal((got >= 0.5)[clear], (expected >= 0.5)[clear])


@given(data=st.data(), graph=GRAPHS)
@settings(deadline=None)
def test_the_probabilities_are_a_fixed_point(data, graph, wishes):
    tree, clients, alpha, seed = data.draw(wishes)
    sure = known_paths_only(tree, clients, alpha, seed).known[0]
    probability = Neighbours.of(tree, graph).propagate(sure, numpy_generator(seed, "any order"))
    weights = tree.wu_palmer(root_depth=1)
    if graph == "tree":
        weights[np.subtract.outer(tree.depth, tree.depth) ** 2 != 1] = 0
        weights[~(tree.ancestors_mask() | tree.ancestors_mask().T)] = 0
    np.fill_diagonal(weights, 0)
    for node in tree.internal[~sure[tree.internal]]:
        mean = weights[node] @ probability / weights[node].sum()
        assert probability[node] == pytest.approx(mean, abs=len(tree) * 1e-6)


@given(data=st.data(), graph=GRAPHS, expertise=EXPERTISES)
@settings(deadline=None)
def test_what_every_generated_knowledge_keeps(data, graph, expertise, wishes):
    tree, clients, alpha, seed = data.draw(wishes)
    known = relational_neighbours(tree, clients, alpha, seed, graph, expertise).known
    for node in range(1, len(tree)):
        assert not np.any(known[:, node] & ~known[:, tree.parents[node]])  # closed upwards
    leaves = known[:, tree.leaves]
    assert leaves.any(axis=0).all()  # every leaf is known to someone
    wanted = math.ceil((1 - alpha) * len(tree.leaves) - 1e-9)
    assert leaves.sum(axis=1).tolist() == [wanted] * clients
    naive = (
        make(tree, clients, alpha, seed, expertise).known
        for make in (known_paths_only, hidden_leaves)
    )
    contracted, expanded = naive
    assert np.all(contracted <= known)
    assert np.all(known <= expanded)


@given(data=st.data(), graph=GRAPHS, expertise=EXPERTISES)
@settings(deadline=None)
def test_alpha_0_knows_all(data, graph, expertise, wishes):
    tree, clients, _, seed = data.draw(wishes)
    for alpha in (0.0, -1e-10):
        assert relational_neighbours(tree, clients, alpha, seed, graph, expertise).known.all()


@given(data=st.data(), expertise=EXPERTISES)
@settings(deadline=None)
def test_known_leaves_grow_as_alpha_falls(data, expertise, wishes):
    tree, clients, alpha, seed = data.draw(wishes)
    more = draw_known_leaves(tree, clients, alpha / 2, seed, expertise)
    assert np.all(draw_known_leaves(tree, clients, alpha, seed, expertise) <= more)


@pytest.mark.parametrize("expertise", ["random", "coherent"])
def test_the_split_is_even_and_disjoint(expertise):
    tree = dataset_taxonomy("cifar100")
    known = draw_known_leaves(tree, 10, 0.9, 47, expertise)
    assert known.sum(axis=0).tolist() == [1] * 100
    assert known.sum(axis=1).tolist() == [10] * 10


@pytest.mark.parametrize("tenths", range(10))
def test_rounding_never_adds_a_leaf(tenths):
    tree = dataset_taxonomy("cifar100")
    exact = math.ceil((1 - Fraction(tenths, 10)) * 100)
    known = relational_neighbours(tree, 10, tenths / 10, 47).known[:, tree.leaves]
    assert known.sum(axis=1).tolist() == [exact] * 10  # 30 at alpha 0.7, where 1 - 0.7 is not 0.3


@pytest.mark.parametrize("dataset", ["cifar100", "tiny-imagenet"])
def test_where_algorithm_1_meets_the_naive_generators(dataset):
    """The method, section 5: all unlabeled nodes become known at 0.3 and 0.6, none at 0.8, 0.9."""
    tree = dataset_taxonomy(dataset)
    meets = {0.3: hidden_leaves, 0.6: hidden_leaves, 0.8: known_paths_only, 0.9: known_paths_only}
    for alpha, naive in meets.items():
        made = relational_neighbours(tree, 10, alpha, 47)
        assert np.mean(made.known != naive(tree, 10, alpha, 47).known) < 0.002
    between = relational_neighbours(tree, 10, 0.7, 47).known.sum()
    assert known_paths_only(tree, 10, 0.7, 47).known.sum() < between
    assert between < hidden_leaves(tree, 10, 0.7, 47).known.sum()


def test_the_tree_graph_adds_nothing_without_single_children():
    """An unlabeled node has at most half its parent's probability (proof: docs/knowledge.md)."""
    for dataset, alpha in (("cifar100", 0.3), ("cifar100", 0.7), ("tiny-imagenet", 0.5)):
        tree = dataset_taxonomy(dataset)
        made = relational_neighbours(tree, 10, alpha, 47, graph="tree")
        assert made == known_paths_only(tree, 10, alpha, 47)


def test_the_tree_graph_follows_a_chain():
    """root - a - b - leaf, beside a known leaf: p(a) and p(b) fall from 1 to 0 in steps."""
    tree = Taxonomy.from_edges([("root", "a"), ("a", "b"), ("b", "x"), ("root", "y")])
    sure = np.isin(np.arange(len(tree)), [tree.index("root"), tree.index("y")])
    probability = Neighbours.of(tree, "tree").propagate(sure, numpy_generator(1, "any"))
    a, b = (probability[tree.index(node)] for node in "ab")
    assert a == pytest.approx((2 / 3 + 4 / 5 * b) / (2 / 3 + 4 / 5), abs=1e-5)
    assert b == pytest.approx(4 / 5 * a / (4 / 5 + 6 / 7), abs=1e-5)
    assert b < 0.5 < a
    seed = next(s for s in range(99) if draw_known_leaves(tree, 2, 0.5, s, "random")[0, 1])
    made = relational_neighbours(tree, 2, 0.5, seed, graph="tree")
    assert made.known_ids(0) == ["root", "a", "y"]


def test_coherent_clients_know_related_leaves():
    tree = dataset_taxonomy("cifar100")
    similarity = tree.wu_palmer(root_depth=1)[np.ix_(tree.leaves, tree.leaves)]
    np.fill_diagonal(similarity, 0)
    for alpha, gain in ((0.3, 0.03), (0.6, 0.06), (0.9, 0.06)):
        means = {
            expertise: np.mean(
                [
                    similarity[np.ix_(known, known)].sum() / (known.sum() * (known.sum() - 1))
                    for seed in range(5)
                    for known in draw_known_leaves(tree, 10, alpha, seed, expertise)
                ]
            )
            for expertise in ("random", "coherent")
        }
        assert means["coherent"] > means["random"] + gain


@pytest.mark.parametrize(
    ("clients", "alpha", "seed", "words"),
    [
        (10, 0.91, 0, ["alpha is 0.91", "10 clients", "between 0 and 0.9"]),
        (10, -0.1, 0, ["alpha is -0.1"]),
        (10, float("nan"), 0, ["alpha is nan"]),
        (1, 0.1, 0, ["1 client it", "between 0 and 0 "]),
        (0, 0.5, 0, ["at least one client"]),
        (10, 0.5, -1, ["seed is -1"]),
    ],
)
def test_impossible_wishes(clients, alpha, seed, words):
    for make in (relational_neighbours, hidden_leaves, known_paths_only):
        with pytest.raises(KnowledgeError) as error:
            make(dataset_taxonomy("cifar100"), clients, alpha, seed)
        assert all(word in str(error.value) for word in words)


def test_more_clients_than_leaves(animals):
    """Method, section 5, bounds alpha alone; some clients then have no leaf of their own."""
    clients = 3 * len(animals.leaves)
    for make in (relational_neighbours, hidden_leaves, known_paths_only):
        assert make(animals, clients, 0.0, 0).known.all()
        known = make(animals, clients, 0.5, 0).known[:, animals.leaves]
        assert known.any(axis=0).all()
        assert (known.sum(axis=1) == -(-len(animals.leaves) // 2)).all()
    with pytest.raises(KnowledgeError, match="each needs one of its own; use at most"):
        relational_neighbours(animals, clients, 0.5, 0, expertise="coherent")


def test_unknown_options(animals):
    with pytest.raises(KnowledgeError, match="no graph 'ring'; choose one of complete, tree"):
        relational_neighbours(animals, 1, 0, 0, graph="ring")
    with pytest.raises(KnowledgeError, match="no expertise 'odd'; choose one of random, coherent"):
        relational_neighbours(animals, 1, 0, 0, expertise="odd")


def test_alpha_at_its_bound_with_rounding():
    for clients in (3, 7, 49):  # 1 - 1/clients as users compute it, a rounding above the bound
        tree = dataset_taxonomy("cifar100")
        known = relational_neighbours(tree, clients, (clients - 1) / clients + 5e-10, 1).known
        assert known[:, tree.leaves].sum(axis=1).tolist() == [math.ceil(100 / clients)] * clients


PRINT_HASH = """
import hashlib
from fedgrain.knowledge import relational_neighbours
from fedgrain.taxonomy import dataset_taxonomy
for graph, expertise in (("complete", "random"), ("tree", "coherent")):
    made = relational_neighbours(dataset_taxonomy("cifar100"), 10, 0.7, 47, graph, expertise)
    print(hashlib.sha256(made.known.tobytes()).hexdigest())
"""


def test_same_seed_same_knowledge_in_another_process():
    printed = {
        subprocess.run(
            [sys.executable, "-c", PRINT_HASH],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(printed) == 1
    assert len(set(printed.pop().split())) == 2


def test_seeds_and_clients_differ():
    tree = dataset_taxonomy("cifar100")
    one, two = (relational_neighbours(tree, 10, 0.7, seed) for seed in (47, 48))
    assert one != two
    assert len(np.unique(one.known, axis=0)) == 10


@pytest.mark.parametrize("graph", ["complete", "tree"])
def test_blocks_do_not_change_a_bit(graph, monkeypatch):
    tree = dataset_taxonomy("cifar100")
    sure = known_paths_only(tree, 10, 0.8, 47).known[3]
    whole = Neighbours.of(tree, graph).propagate(sure, numpy_generator(47, "any order"))
    table = tree.wu_palmer(root_depth=1)
    rows, columns = np.array([150, 3, 0, 77]), np.array([0, 2, 9, 77, 150])
    part = tree.wu_palmer_of(rows, columns, root_depth=1)
    assert np.array_equal(part, table[np.ix_(rows, columns)])
    monkeypatch.setattr(relational, "BLOCK_CELLS", 1)
    again = Neighbours.of(tree, graph).propagate(sure, numpy_generator(47, "any order"))
    assert np.array_equal(whole, again)

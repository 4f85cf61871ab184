import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy import Taxonomy
from strategies import trees

#          life
#     animal       plant
#   bird   cat     oak
# kite owl
LIFE = [
    ("life", "plant"),
    ("animal", "cat"),
    ("bird", "owl"),
    ("life", "animal"),
    ("animal", "bird"),
    ("plant", "oak"),
    ("bird", "kite"),
]


@pytest.fixture
def life() -> Taxonomy:
    return Taxonomy.from_edges(LIFE, {"kite": "Brahminy kite"})


def naive_path(tree: Taxonomy, node: int) -> list[int]:
    path = [node]
    while tree.parents[path[0]] != -1:
        path.insert(0, int(tree.parents[path[0]]))
    return path


def naive_lca_depth(tree: Taxonomy, a: int, b: int) -> int:
    shared = [x for x in naive_path(tree, a) if x in naive_path(tree, b)]
    return len(shared) - 1


def test_nodes_come_depth_first_children_by_id(life):
    assert life.ids == ("life", "animal", "bird", "kite", "owl", "cat", "plant", "oak")
    assert life.names[3] == "Brahminy kite"
    assert life.names[4] == "owl"
    assert life.parents.tolist() == [-1, 0, 1, 2, 2, 1, 0, 6]
    assert life.depth.tolist() == [0, 1, 2, 3, 3, 2, 1, 2]
    assert life.subtree_end.tolist() == [8, 6, 5, 4, 5, 6, 8, 8]
    assert life.leaves.tolist() == [3, 4, 5, 7]
    assert life.internal.tolist() == [0, 1, 2, 6]
    assert life.root == 0


def test_looking_up(life):
    assert [life.ids[c] for c in life.children(life.index("bird"))] == ["kite", "owl"]
    assert life.children(life.index("oak")).tolist() == []
    assert [life.ids[n] for n in life.path(life.index("owl"))] == ["life", "animal", "bird", "owl"]
    assert "owl" in life
    assert "emu" not in life
    with pytest.raises(TaxonomyError, match="no node 'emu'"):
        life.index("emu")
    assert life.child_counts.tolist() == [2, 2, 2, 0, 0, 0, 1, 0]
    assert life.leaf_counts.tolist() == [4, 3, 2, 1, 1, 1, 1, 1]


def test_properties_by_hand(life):
    assert life.properties() == {"nodes": 8, "internal": 4, "max_depth": 3, "mean_children": 1.75}


def test_wu_palmer_by_hand(life):
    kite, owl, oak = (life.index(x) for x in ("kite", "owl", "oak"))
    metric, matrix = life.wu_palmer(root_depth=0), life.wu_palmer(root_depth=1)
    assert metric[kite, owl] == pytest.approx(2 * 2 / 6)
    assert metric[kite, oak] == 0
    assert metric[0, 0] == 1
    assert matrix[kite, owl] == pytest.approx(2 * 3 / 8)
    assert matrix[kite, oak] == pytest.approx(2 * 1 / 7)
    assert np.all(matrix > 0)


@given(trees(min_nodes=1))
def test_lca_and_wu_palmer_equal_a_naive_walk(tree):
    count = len(tree)
    table = [[naive_lca_depth(tree, a, b) for b in range(count)] for a in range(count)]
    assert tree.lca_depths().tolist() == table
    nodes = np.arange(count)
    assert tree.lca_depth(nodes[:, None], nodes[None, :]).tolist() == table
    for root_depth in (0, 1):
        similarity = tree.wu_palmer(root_depth=root_depth)
        for a in range(count):
            for b in range(count):
                total = tree.depth[a] + tree.depth[b] + 2 * root_depth
                expected = 2 * (table[a][b] + root_depth) / total if total else 1.0
                assert similarity[a, b] == pytest.approx(expected, abs=1e-12)


@given(trees())
def test_masks_and_ranges_equal_a_naive_walk(tree):
    mask = tree.ancestors_mask()
    first, end = tree.leaf_ranges
    for node in range(len(tree)):
        path = naive_path(tree, node)
        assert np.flatnonzero(mask[node]).tolist() == sorted(path)
        assert tree.path(node).tolist() == path
        assert tree.depth[node] == len(path) - 1
        below = [leaf for leaf in tree.leaves if node in naive_path(tree, int(leaf))]
        assert tree.leaves[first[node] : end[node]].tolist() == below
        assert tree.children(node).tolist() == [
            child for child in range(len(tree)) if tree.parents[child] == node
        ]


@given(trees(), st.integers(0, 10**6))
def test_sweeps_equal_a_naive_walk(tree, seed):
    rng = np.random.default_rng(seed)
    values, marked = rng.integers(0, 9, (2, len(tree))), rng.random((2, len(tree))) < 0.6
    paths = [naive_path(tree, node) for node in range(len(tree))]
    below = [[n for n in range(len(tree)) if node in paths[n]] for node in range(len(tree))]
    sums, on_the_way = tree.sums_below(values), tree.sums_along_paths(values)
    closed, reached = tree.close_upwards(marked), tree.on_paths_to_leaves(marked[:, tree.leaves])
    for node, path in enumerate(paths):
        assert sums[:, node].tolist() == values[:, below[node]].sum(1).tolist()
        assert on_the_way[:, node].tolist() == values[:, path].sum(1).tolist()
        assert tree.heights[node] == max(len(paths[n]) for n in below[node]) - len(path)
        assert tree.levels[len(path) - 1].tolist().count(node) == 1
        padded = [*path, *[-1] * (len(tree.levels) - len(path))]
        assert tree.ancestor_table[node].tolist() == padded
        for row in range(2):
            assert closed[row, node] == all(marked[row, path[1:]]) & marked[row, 0]
            assert reached[row, node] == any(
                marked[row, n] for n in below[node] if not len(tree.children(n))
            )
        forks = [n for n in below[node] if len(tree.children(n)) != 1]
        assert tree.past_single_children()[node] == forks[0]
    a, b = rng.integers(0, len(tree), (2, 20))
    shared = [max(set(paths[x]) & set(paths[y])) for x, y in zip(a, b, strict=True)]
    assert tree.lca(a, b).tolist() == shared
    assert tree.lca_depth(a, b).tolist() == tree.depth[shared].tolist()


@given(trees(), st.randoms(use_true_random=False))
def test_the_order_of_edges_does_not_matter(tree, random):
    edges = [(tree.ids[tree.parents[n]], tree.ids[n]) for n in range(1, len(tree))]
    random.shuffle(edges)
    again = Taxonomy.from_edges(edges, root=tree.ids[0])
    assert again == tree
    assert hash(again) == hash(tree)
    assert again.content_hash == tree.content_hash
    assert pickle.loads(pickle.dumps(tree)) == tree


@given(trees(min_nodes=2), st.data())
def test_restrict_keeps_the_leaves_and_their_ancestors(tree, data):
    wanted = data.draw(st.sets(st.sampled_from([tree.ids[n] for n in tree.leaves]), min_size=1))
    small = tree.restrict(sorted(wanted))
    assert {small.ids[n] for n in small.leaves} == wanted
    for node_id in small.ids[1:]:
        above = small.ids[small.parents[small.index(node_id)]]
        assert tree.ids[tree.parents[tree.index(node_id)]] == above


@given(trees())
def test_contraction_leaves_no_single_child_but_the_roots(tree):
    small = tree.contract_single_children()
    assert {small.ids[n] for n in small.leaves} == {tree.ids[n] for n in tree.leaves}
    assert np.all(small.child_counts[1:] != 1)
    mask, small_mask = tree.ancestors_mask(), small.ancestors_mask()
    place = [tree.index(node) for node in small.ids]
    assert (mask[np.ix_(place, place)] == small_mask).all()


@given(trees(max_nodes=40), st.data())
def test_keep_is_the_tree_of_the_edges_that_are_left(tree, data):
    count = len(tree) - 1
    kept = [True, *data.draw(st.lists(st.booleans(), min_size=count, max_size=count))]
    edges = []
    for node in range(1, len(tree)):
        above = int(tree.parents[node])
        while not kept[above]:
            above = int(tree.parents[above])
        if kept[node]:
            edges.append((tree.ids[above], tree.ids[node]))
    names = dict(zip(tree.ids, tree.names, strict=True))
    assert tree.keep(np.array(kept)) == Taxonomy.from_edges(edges, names, root=tree.ids[0])


@given(st.lists(st.integers(0, 10**6), max_size=7))
def test_only_depth_first_order_is_taken(picks):
    parents = [-1, *(pick % (node + 1) for node, pick in enumerate(picks))]
    ids = [f"{node}" for node in range(len(parents))]
    walk, path = True, [0]
    for node in range(1, len(parents)):  # depth first: the parent is on the path to the last node
        while path and path[-1] != parents[node]:
            path.pop()
        walk = walk and bool(path)
        path.append(node)
    if walk:
        tree = Taxonomy(ids, parents, ids)
        assert tree.depth.tolist() == [len(tree.path(node)) - 1 for node in range(len(ids))]
        for node in range(len(ids)):
            below = [n for n in range(len(ids)) if node in tree.path(n)]
            assert below == list(range(node, tree.subtree_end[node]))
    else:
        with pytest.raises(TaxonomyError, match="depth-first"):
            Taxonomy(ids, parents, ids)


def test_nearest_in_moves_a_label_up(life):
    coarse = life.keep(np.array([n != "bird" for n in life.ids]))
    assert coarse.ids == ("life", "animal", "cat", "kite", "owl", "plant", "oak")
    moved = [coarse.ids[n] for n in life.nearest_in(coarse)]
    assert moved == ["life", "animal", "animal", "kite", "owl", "cat", "plant", "oak"]


def test_equality_is_of_content(life):
    assert life != Taxonomy.from_edges(LIFE)  # another name
    assert life != Taxonomy.from_edges(LIFE[:-1], {"kite": "Brahminy kite"})
    assert life == Taxonomy.from_edges(LIFE, {"kite": "Brahminy kite"})
    assert life != "life"


def test_a_taxonomy_cannot_be_changed(life):
    with pytest.raises(AttributeError, match="immutable"):
        life.ids = ()
    with pytest.raises(ValueError, match="read-only"):
        life.parents[1] = 2


def test_a_single_node_and_a_long_chain():
    assert Taxonomy.from_edges([], root="thing").leaves.tolist() == [0]
    chain = Taxonomy.from_edges([(f"{i:06d}", f"{i + 1:06d}") for i in range(100_000)])
    assert chain.depth[-1] == 100_000
    assert len(chain.contract_single_children()) == 2
    assert chain.lca_depth(np.array([100_000]), np.array([70_000])).tolist() == [70_000]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([], "empty"),
        (
            [("a", "b"), ("b", "c"), ("c", "a")],
            "edge 3: the tree has a cycle, from child to parent b -> a -> c -> b",
        ),
        ([("r", "x"), ("a", "b"), ("b", "a")], "edge 3: the tree has a cycle"),
        ([("a", "a")], "edge 1: the tree has a cycle"),
        ([("a", "b"), ("c", "d")], "edge 2: the tree has 2 roots, 'a' and 'c'"),
        (
            [("a", "b"), ("a", "c"), ("b", "c")],
            "edge 3: 'c' has two parents, 'b' here and 'a' at edge 2",
        ),
        ([("a", "b"), ("a", "b")], "edge 2: duplicate of edge 1"),
    ],
)
def test_bad_trees_are_refused(edges, message):
    with pytest.raises(TaxonomyError, match=message):
        Taxonomy.from_edges(edges)


def test_bad_arrays_and_arguments_are_refused(life):
    with pytest.raises(TaxonomyError, match="depth-first"):
        Taxonomy(("r", "a", "b", "c"), [-1, 0, 0, 1], ("r", "a", "b", "c"))
    with pytest.raises(TaxonomyError, match="before its children"):
        Taxonomy(("r", "a", "b"), [-1, 2, 0], ("r", "a", "b"))
    with pytest.raises(TaxonomyError, match="root"):
        Taxonomy(("r", "a"), [-1, -1], ("r", "a"))
    with pytest.raises(TaxonomyError, match="not a leaf"):
        life.restrict(["bird"])
    with pytest.raises(TaxonomyError, match="at least one"):
        life.restrict([])

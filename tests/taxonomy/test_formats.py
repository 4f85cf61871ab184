import json
import pickle

import networkx
import pytest
from hypothesis import given

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy import (
    Taxonomy,
    coarsen,
    from_dag,
    from_json,
    from_networkx,
    read_csv,
    read_json,
    settle_dag,
    to_json,
    to_networkx,
    write_csv,
    write_json,
)
from fedgrain.taxonomy.edges import MAX_DEPTH
from strategies import trees


@pytest.fixture
def named() -> Taxonomy:
    return Taxonomy.from_edges(
        [("r", "a"), ("r", 'quote"comma,'), ("a", "ü"), ("a", "b")],
        {"r": "the root", "b": "a, b", "ü": "Übel\nzwei"},
    )


def test_synonyms_are_kept_and_do_not_make_another_tree(named, tmp_path):
    further = {"r": ("top",), "b": ("one; two",), "ü": ("x", "y; z")}
    tree = Taxonomy(named.ids, named.parents, named.names, further)
    write_csv(tree, tmp_path / "tree.csv")
    write_json(tree, tmp_path / "tree.json")
    for again in (
        read_csv(tmp_path / "tree.csv"),
        read_csv(tmp_path / "tree.csv", dag=True),
        read_json(tmp_path / "tree.json"),
        pickle.loads(pickle.dumps(tree)),
    ):
        assert dict(again.synonyms) == further
        assert again == tree == named
    assert dict(tree.restrict(["b"]).synonyms) == {"r": ("top",), "b": ("one; two",)}
    content = to_json(tree)
    content["nodes"][0]["synonyms"] = "top"
    with pytest.raises(TaxonomyError, match=r"node 1: .synonyms. must be a list"):
        from_json(content)


def test_csv_keeps_edges_and_names(named, tmp_path):
    write_csv(named, tmp_path / "tree.csv", root_row=True)
    assert read_csv(tmp_path / "tree.csv") == named
    write_csv(named, tmp_path / "edges.csv")
    again = read_csv(tmp_path / "edges.csv")
    assert again.ids == named.ids
    assert again.names == ("r", *named.names[1:])  # only the root's name needs a row of its own
    assert (tmp_path / "edges.csv").read_text("utf-8").splitlines()[0] == "parent,child,name"


def test_json_and_networkx_keep_all(named, tmp_path):
    write_json(named, tmp_path / "tree.json")
    assert read_json(tmp_path / "tree.json") == named
    assert from_networkx(to_networkx(named)) == named


@given(trees())
def test_round_trips_of_random_trees(tree):
    assert from_json(json.loads(json.dumps(to_json(tree)))) == tree
    assert from_networkx(to_networkx(tree)) == tree


def test_a_hundred_thousand_nodes(tmp_path):
    rows = "\n".join(f"{i // 3},{i + 1}" for i in range(99_999))
    (tmp_path / "big.csv").write_text("parent,child\n" + rows)
    tree = read_csv(tmp_path / "big.csv")
    assert len(tree) == 100_000
    held = [value for value in vars(tree).values() if hasattr(value, "nbytes")]
    assert sum(array.nbytes for array in held) < 100 * len(tree)  # no n x n table


BAD_FILES = {
    "cycle": (b"parent,child\nr,a\nb,c\nc,d\nd,b\n", "line 5: the tree has a cycle"),
    "a root below": (
        b"parent,child\n,b\na,b\n",
        "line 3: 'b' is under 'a', but is also given as the root",
    ),
    "two roots": (b"parent,child\nr,a\ns,b\n", "line 3: the tree has 2 roots, 'r' and 's'"),
    "two parents": (
        b"parent,child\nr,a\nr,b\na,b\n",
        "line 4: 'b' has two parents, 'a' here and 'r'",
    ),
    "duplicate": (b"parent,child\nr,a\nr,b\nr,a\n", "line 4: duplicate of .*line 2"),
    "empty": (b"", "the file is empty"),
    "header only": (b"parent,child\n", "no rows"),
    "header": (b"child;parent\nr;a\n", "line 1: the header is"),
    "not utf-8": (b"parent,child\nr,a\nr,\xfc\n", "line 3: byte 0xfc is not UTF-8"),
    "fields": (b"parent,child\nr,a\nr,b,c\n", "line 3: 3 fields where the header has 2"),
    "no child": (b"parent,child,name\nr,a,A\nr,,B\n", "line 3: the child is empty"),
    "two root rows": (b"parent,child\n,r\n,s\nr,a\n", "line 3: 's' has no parent"),
    "open quote": (b'parent,child\nr,"a\n', "line 2: not a CSV file"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_csv_files_name_the_line(kind, tmp_path):
    content, message = BAD_FILES[kind]
    path = tmp_path / "tree.csv"
    path.write_bytes(content)
    with pytest.raises(TaxonomyError, match=message) as caught:
        read_csv(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[]", "not a taxonomy"),
        ('{"format": "fedgrain-taxonomy-1", "nodes": 5}', '"nodes" must be a list'),
        ('{"format": "fedgrain-taxonomy-1", "nodes": [{"id": 3}]}', "node 1: a node needs"),
        ('{"format": "fedgrain-taxonomy-1", "nodes": []}', "empty"),
        (
            '{"format": "fedgrain-taxonomy-1", "nodes": [{"id": "a"}, {"id": "b"}]}',
            "node 2: the tree has two roots",
        ),
    ],
)
def test_bad_json_files_say_where(text, message, tmp_path):
    (tmp_path / "tree.json").write_text(text)
    with pytest.raises(TaxonomyError, match=message):
        read_json(tmp_path / "tree.json")


def test_from_dag_keeps_the_longest_path():
    # whale: creature -> animal -> mammal -> whale is longer than creature -> swimmer -> whale
    edges = [("creature", "swimmer"), ("creature", "animal"), ("animal", "mammal")]
    edges += [("swimmer", "whale"), ("mammal", "whale"), ("swimmer", "cod"), ("mammal", "dog")]
    tree = from_dag(edges, {"cod": "Atlantic cod"})
    assert [tree.ids[n] for n in tree.path(tree.index("whale"))] == [
        "creature", "animal", "mammal", "whale",
    ]  # fmt: skip
    assert tree.names[tree.index("cod")] == "Atlantic cod"
    with pytest.raises(TaxonomyError, match="two parents"):
        Taxonomy.from_edges(edges)


def test_from_dag_ties_go_to_the_parent_that_more_classes_use():
    edges = [("r", "p"), ("r", "q"), ("p", "x"), ("q", "x"), ("q", "y"), ("q", "z")]
    tree = from_dag(edges)
    assert tree.ids[tree.parents[tree.index("x")]] == "q"
    first = from_dag([("r", "p"), ("r", "q"), ("p", "x"), ("q", "x")])
    assert first.ids[first.parents[first.index("x")]] == "p"  # then the order of the edges


def test_a_class_whose_children_all_went_elsewhere_stays_as_a_leaf():
    # as AudioSet's Sheep: its one child, bleat, moves to the longer path through livestock
    edges = [("all", "animal"), ("animal", "livestock"), ("livestock", "flock")]
    edges += [("animal", "sheep"), ("sheep", "bleat"), ("flock", "bleat"), ("animal", "dog")]
    settled = settle_dag(edges)
    tree = settled.taxonomy
    assert settled.became_leaves == ("sheep",)
    assert settled.dropped_edges == (("sheep", "bleat"),)
    assert [tree.ids[n] for n in tree.path(tree.index("sheep"))] == ["all", "animal", "sheep"]
    assert tree == from_dag(edges)
    # two in a row: only the lower one is a leaf
    edges.remove(("animal", "sheep"))
    edges += [("animal", "woolly"), ("woolly", "sheep"), ("flock", "lamb"), ("lamb", "bleat")]
    settled = settle_dag(edges)
    assert settled.became_leaves == ("sheep",)
    assert settled.dropped_edges == (("sheep", "bleat"), ("flock", "bleat"))
    assert "woolly" in settled.taxonomy


def chain(levels):
    return [(f"n{level:05d}", f"n{level + 1:05d}") for level in range(levels)]


def test_a_file_may_not_be_deeper_than_any_taxonomy(tmp_path):
    def write(levels):
        rows = "".join(f"{parent},{child}\n" for parent, child in chain(levels))
        (tmp_path / "tree.csv").write_text("parent,child\n" + rows)
        return tmp_path / "tree.csv"

    assert read_csv(write(MAX_DEPTH)).depth.max() == MAX_DEPTH == 500
    assert coarsen(read_csv(write(MAX_DEPTH)), 10).exact
    for dag, place in ((False, ", line 502"), (True, "")):
        said = rf"tree.csv{place}: the tree is 20,000 levels deep, but .*'n00501'.* leave out"
        with pytest.raises(TaxonomyError, match=said):
            read_csv(write(20_000), dag=dag)
    tree = Taxonomy.from_edges(chain(8_000))  # in Python a tree may be deep, but not coarsened
    with pytest.raises(TaxonomyError, match="8,000 levels deep"):
        coarsen(tree, 10)
    with pytest.raises(TaxonomyError, match="x, node 502: the tree is 8,000 levels deep"):
        from_json(to_json(tree), "x")


def test_a_file_that_is_not_a_dag_is_named(tmp_path):
    path = tmp_path / "tree.csv"
    path.write_text("parent,child\nr,a\na,b\nb,a\n")
    with pytest.raises(TaxonomyError, match=r"tree.csv: the graph has a cycle"):
        read_csv(path, dag=True)
    path.write_text("parent,child\nr,a\nr,a\n")
    with pytest.raises(TaxonomyError, match=r"^\S+tree.csv, line 3: duplicate edge"):
        read_csv(path, dag=True)


def test_the_root_row_of_a_dag(tmp_path):
    path = tmp_path / "tree.csv"
    path.write_text("parent,child,name\n,r,all\nr,a,\nr,b,\na,b,\n")
    assert read_csv(path, dag=True).names == ("all", "a", "b")
    path.write_text("parent,child\n,r\n")
    assert read_csv(path, dag=True).ids == read_csv(path).ids == ("r",)
    path.write_text("parent,child\n,a\nr,a\n")
    with pytest.raises(TaxonomyError, match=r"tree.csv: 'a' is under 'r', but is also given as"):
        read_csv(path, dag=True)
    path.write_text("parent,child\n,s\nr,a\n")
    with pytest.raises(TaxonomyError, match=r"tree.csv: the graph has 2 roots \('r', 's'\)"):
        read_csv(path, dag=True)


def test_from_dag_refuses_what_is_not_a_dag():
    with pytest.raises(TaxonomyError, match="cycle through or above 'b'"):
        from_dag([("r", "b"), ("b", "c"), ("c", "b"), ("c", "x")])
    with pytest.raises(TaxonomyError, match="2 roots"):
        from_dag([("r", "x"), ("s", "x")])
    with pytest.raises(TaxonomyError, match="edge 2: duplicate edge"):
        from_dag([("r", "x"), ("r", "x")])


def test_networkx_graphs_that_are_not_trees_are_refused():
    graph = networkx.DiGraph([("r", "a")])
    graph.add_node("alone")
    with pytest.raises(TaxonomyError, match="'alone' of the graph has no edge"):
        from_networkx(graph)
    with pytest.raises(TaxonomyError, match="same text"):
        from_networkx(networkx.DiGraph([(1, 2), (1, "2")]))
    dag = networkx.DiGraph([("r", "a"), ("r", "b"), ("a", "b")])
    assert from_networkx(dag, dag=True).properties()["max_depth"] == 2

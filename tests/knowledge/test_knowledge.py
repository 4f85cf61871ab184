import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrain.errors import FedgrainError, KnowledgeError, TaxonomyError
from fedgrain.knowledge import Knowledge, relational_neighbours
from fedgrain.taxonomy import Taxonomy, coarsen, dataset_taxonomy


def mask(tree, *ids):
    return np.isin(np.array(tree.ids), ids)


def test_knowledge_cannot_be_changed(animals):
    known = np.ones((1, len(animals)), dtype=bool)
    knowledge = Knowledge(animals, known, ("museum",))
    with pytest.raises(ValueError, match="read-only"):
        knowledge.known[0, 1] = False
    known[0, 1] = False
    assert knowledge.known.all()


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (["animal", "kite"], "museum knows 'kite' but not its parent 'bird'"),
        (["bird"], "museum does not know the root 'animal'"),
        ([], "museum does not know the root 'animal'"),
    ],
)
def test_it_is_closed_upwards(animals, known, message):
    with pytest.raises(KnowledgeError, match=message):
        Knowledge(animals, mask(animals, *known)[None], ("museum",))


def test_shapes_and_names_are_checked(animals):
    everything = np.ones((2, len(animals)), dtype=bool)
    with pytest.raises(KnowledgeError, match="shape"):
        Knowledge(animals, everything, ("museum",))
    with pytest.raises(KnowledgeError, match="2 clients or annotators are named 'museum'"):
        Knowledge(animals, everything, ("museum", "museum"))
    with pytest.raises(KnowledgeError, match="names of their annotators"):
        Knowledge(animals, everything, ("museum",), np.array([0, 0], dtype=np.int32))
    with pytest.raises(KnowledgeError, match="1 annotators are named, but there are 2 rows"):
        Knowledge(animals, everything, ("m",), np.array([0, 0], dtype=np.int32), ("ann",))
    with pytest.raises(KnowledgeError, match="2 clients or annotators are named 'm, annotator a'"):
        Knowledge(animals, everything, ("m",), np.array([0, 0], dtype=np.int32), ("a", "a"))
    with pytest.raises(KnowledgeError, match="every number below 2"):
        Knowledge(animals, everything, ("m", "n"), np.array([0, 2], dtype=np.int32), ("a", "b"))


@given(data=st.data())
@settings(deadline=None)
def test_saved_is_loaded(data, wishes, tmp_path_factory):
    tree, clients, alpha, seed = data.draw(wishes)
    made = relational_neighbours(tree, clients, alpha, seed)
    path = tmp_path_factory.mktemp("saved") / "knowledge.json"
    made.save(path)
    assert Knowledge.load(path, tree) == made


def test_saved_with_annotators(animals, tmp_path):
    labels = ["red kite", "bird", "cat", "cat"]
    made = Knowledge.from_labels(animals, labels, ["b", "a", "b", "b"], ["x", "x", "y", "y"], 1)
    assert made.client_names == ("a", "b")
    assert made.row_names == ("a, annotator x", "b, annotator x", "b, annotator y")
    assert made.rows_of(1).tolist() == [1, 2]
    made.save(tmp_path / "k.json")
    loaded = Knowledge.load(tmp_path / "k.json", animals)
    assert loaded == made
    assert loaded.known_ids(2) == ["animal", "cat"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"clients": [', "k.json, line 1: not JSON"),
        ("[]", 'a list "clients"'),
        ('{"clients": []}', 'a list "clients"'),
        ('{"clients": [{"known": []}]}', 'client number 0: an object with a "name"'),
        ('{"clients": [{"name": "a"}]}', "client 'a': \"known\" must be a list of node ids"),
        ('{"clients": [{"name": "a", "known": ["animal", 3]}]}', '"known" must be a list'),
        (
            '{"clients": [{"name": "a", "known": ["animal", "brid"]}]}',
            "client 'a': there is no node 'brid' in the taxonomy; did you mean 'bird'?",
        ),
        ('{"clients": [{"name": "a", "known": ["animal", "??"]}]}', "no node '\\?\\?'"),
        ('{"clients": [{"name": "a", "known": "all"}]}', 'a list of node ids, or "everything"'),
        ('{"zoo": "all"}', "client 'zoo': \"known\" must be a list of node ids"),
        ('{"clients": [{"name": "a", "annotators": []}]}', '"annotators" must be a list'),
        (
            '{"clients": [{"name": "a", "annotators": [{"name": "x", "known": ["animal"]}]},'
            ' {"name": "b", "known": ["animal"]}]}',
            'some clients have "annotators"',
        ),
    ],
)
def test_bad_files(animals, tmp_path, content, message):
    path = tmp_path / "k.json"
    path.write_text(content)
    with pytest.raises(FedgrainError, match=message) as error:
        Knowledge.load(path, animals)
    assert str(path) in str(error.value)


def test_parents_need_not_be_repeated_and_someone_may_know_everything(animals, tmp_path):
    path = tmp_path / "k.json"
    path.write_text(
        '{"clients": [{"name": "museum", "known": ["red kite"]},'
        ' {"name": "zoo", "known": "everything"}, {"name": "school", "known": []}]}'
    )
    with pytest.warns(UserWarning, match=r"k\.json: \d nodes above the listed ones count as known"):
        loaded = Knowledge.load(path, animals)
    above = animals.path(animals.index("red kite"))
    assert set(loaded.known_ids(0)) == {animals.ids[node] for node in above}
    assert loaded.known[1].all() and loaded.known_ids(2) == [animals.ids[0]]
    path.write_text('{"museum": ["red kite"], "zoo": "everything", "school": []}')
    with pytest.warns(UserWarning, match="above the listed ones"):
        assert Knowledge.load(path, animals) == loaded
    loaded.save(path)
    with warnings.catch_warnings():  # a whole list needs no note
        warnings.simplefilter("error")
        assert Knowledge.load(path, animals) == loaded


def test_an_unknown_wnid_is_found_by_name(tmp_path):
    tree = dataset_taxonomy("cifar100")
    path = tmp_path / "k.json"
    root = tree.ids[0]
    path.write_text(json.dumps({"clients": [{"name": "a", "known": [root, "mapel tree"]}]}))
    wnid = tree.ids[tree.names.index("maple tree")]
    with pytest.raises(KnowledgeError, match=rf"did you mean '{wnid}' \(maple tree\)"):
        Knowledge.load(path, tree)


# -- from labels ----------------------------------------------------------------------------------


@given(data=st.data(), min_count=st.integers(1, 4))
@settings(deadline=None)
def test_inferred_as_section_5_says(data, min_count, trees):
    tree = data.draw(trees)
    labellers = st.tuples(
        st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, len(tree) - 1)
    )
    told = data.draw(st.lists(labellers, min_size=1, max_size=30))
    clients, people, labels = zip(*told, strict=True)
    ids = [tree.ids[label] for label in labels]
    per_client = Knowledge.from_labels(tree, ids, clients, min_count=min_count)
    per_person = Knowledge.from_labels(tree, np.array(labels), clients, people, min_count)
    for knowledge, keys in (
        (per_client, [(name, None) for name in per_client.client_names]),
        (
            per_person,
            [
                (per_person.client_names[client], person)
                for client, person in zip(
                    per_person.clients_of_rows, per_person.annotators, strict=True
                )
            ],
        ),
    ):
        for row, (client, person) in enumerate(keys):
            own = [node for c, p, node in told if c == client and person in (None, p)]
            assert own  # no labeller without labels
            for node in range(len(tree)):
                uses = sum(node in tree.path(label) for label in own)
                assert knowledge.known[row, node] == (uses >= min_count or node == 0)
    assert set(per_client.client_names) == set(clients)


def test_one_stray_label_is_not_knowledge(animals):
    labels = ["bird"] * 5 + ["red kite"]
    assert Knowledge.from_labels(animals, labels, [3] * 6).known_ids(0) == ["animal", "bird"]
    assert Knowledge.from_labels(animals, labels, [3] * 6).client_names == ("3",)


@pytest.mark.parametrize(
    ("labels", "clients", "min_count", "message"),
    [
        (["birb"], ["a"], 1, "label 0: there is no node 'birb'.*'bird'"),
        (np.array([0, 7]), ["a", "a"], 1, "label 1 is node number 7.*0 to 6"),
        (["bird"], ["a", "b"], 1, "1 labels but 2 clients"),
        (["bird"], ["a"], 0, "min_count is 0"),
        ([], [], 1, "no labels"),
    ],
)
def test_bad_labels(animals, labels, clients, min_count, message):
    with pytest.raises(KnowledgeError, match=message):
        Knowledge.from_labels(animals, labels, clients, min_count=min_count)


# -- on a coarsened tree --------------------------------------------------------------------------


def test_known_on_the_coarse_tree():
    full = dataset_taxonomy("cifar100")
    coarse = coarsen(full, 8).taxonomy
    made = relational_neighbours(full, 10, 0.8, 47)
    known = made.on(coarse)
    for node, node_id in enumerate(coarse.ids):
        assert np.array_equal(known[:, node], made.known[:, full.index(node_id)])


def test_a_strange_coarse_tree(animals):
    made = relational_neighbours(animals, 1, 0, 0)
    with pytest.raises(KnowledgeError, match="'dog' is not in the full taxonomy"):
        made.on(Taxonomy.from_edges([("animal", "dog")]))
    with pytest.raises(KnowledgeError, match="parent of 'owl'"):
        made.on(Taxonomy.from_edges([("animal", "kite"), ("kite", "owl")]))
    with pytest.raises((KnowledgeError, TaxonomyError)):
        made.on(Taxonomy.from_edges([("cat", "animal")]))

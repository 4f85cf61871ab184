import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from fedgrain.errors import TaxonomyError
from fedgrain.taxonomy import (
    class_list,
    dataset_taxonomy,
    from_dag,
    full_taxonomy,
    settle_dag,
    wordnet,
)
from fedgrain.taxonomy.paths import all_paths, spearman

FULL = {  # method, section 2
    "imagenet": {"nodes": 1372, "internal": 372, "max_depth": 15, "mean_children": 3.69},
    "tiny-imagenet": {"nodes": 300, "internal": 100, "max_depth": 11, "mean_children": 2.99},
    "cifar100": {"nodes": 151, "internal": 51, "max_depth": 10, "mean_children": 2.94},
}


def test_all_nouns_are_there():
    nouns = wordnet()
    assert len(nouns) == 82_115
    tops = [wnid for wnid in nouns.wnids if not nouns.hypernyms(wnid)]
    assert [nouns.sense_name(t) for t in tops] == ["entity.n.01"]


def test_look_up_by_wnid_lemma_and_sense():
    nouns = wordnet()
    assert nouns.lemmas("n02084071") == ["dog", "domestic_dog", "Canis_familiaris"]
    assert nouns.hypernyms("n02084071") == ["n02083346", "n01317541"]  # canine, domestic animal
    assert nouns.senses("dog")[0] == "n02084071"
    assert len(nouns.senses("dog")) == 7
    assert nouns.senses("domestic dog") == ["n02084071"]
    assert nouns.find("dog.n.01") == nouns.find("domestic_dog.n.1") == "n02084071"
    assert nouns.find("kite.n.04") == nouns.senses("Kite")[3]
    assert nouns.sense_name("n02363005") == "beaver.n.07"
    assert nouns.name("n00001930") == "physical entity"
    assert nouns.hypernyms(nouns.find("einstein.n.01")) == [
        nouns.find("physicist.n.01")
    ]  # instance


def test_senses_are_those_of_a_table_of_all_lemmas():
    nouns, table = wordnet(), {}
    for wnid, lemmas, senses in zip(nouns.wnids, nouns._lemmas, nouns._senses, strict=True):
        for lemma, sense in zip(lemmas.lower().split("|"), senses.split("|"), strict=True):
            table.setdefault(lemma, set()).add((int(sense), wnid))
    some = [*list(table)[::6000], *sorted(table)[:2], *sorted(table)[-2:], "entity", "dog", "lead"]
    assert any(len(table[lemma]) > 5 for lemma in some)
    for lemma in some:
        expected = list(dict.fromkeys(wnid for _, wnid in sorted(table[lemma])))
        assert nouns.senses(lemma) == expected, lemma
    for nothing in ("", " ", "xqdog", "dog|domestic_dog"):
        with pytest.raises(TaxonomyError, match="is not a noun of WordNet"):
            nouns.senses(nothing)


def test_our_cifar100_mapping_names_its_senses():
    nouns, classes = wordnet(), class_list("cifar100")
    assert len(set(classes.wnids)) == 100
    assert classes.names["n01443537"] == "aquarium fish"
    from importlib.resources import files

    rows = (files("fedgrain.taxonomy") / "resources/cifar100.tsv").read_text("utf-8").splitlines()
    for row in rows[1:]:
        _, wnid, sense = row.split("\t")
        assert nouns.sense_name(wnid) == sense


@pytest.mark.parametrize("dataset", FULL)
def test_the_counts_of_section_2(dataset):
    tree = dataset_taxonomy(dataset)
    assert tree.properties() == FULL[dataset]
    assert {tree.ids[n] for n in tree.leaves} == set(class_list(dataset).wnids)


def test_the_three_rehung_synsets():
    tree = full_taxonomy(["street_sign.n.01", "traffic_light.n.01", "ball.n.03", "dog.n.01"])
    assert tree.names[tree.parents[tree.index("n06794110")]] == "signboard"
    assert tree.names[tree.parents[tree.index("n06874185")]] == "signboard"


def literal_path_rule(
    edges: list[tuple[str, str]], classes: list[str], root: str
) -> dict[str, str]:
    """Section 2 word for word: list every path, keep the longest, compare them one by one."""
    parents: dict[str, list[str]] = {}
    for parent, child in edges:
        parents.setdefault(child, []).append(parent)

    def paths(node: str) -> list[list[str]]:
        if node == root:
            return [[root]]
        return [[node, *rest] for p in parents.get(node, []) for rest in paths(p)]

    longest = {}
    for leaf in classes:
        found = paths(leaf)
        longest[leaf] = [p for p in found if len(p) == max(map(len, found))]
    use: dict[str, int] = {}
    for leaf in classes:
        for node in {n for p in longest[leaf] for n in p}:
            use[node] = use.get(node, 0) + 1
    fixed: dict[str, str] = {}
    for leaf in classes:

        def rank(path: list[str]) -> tuple[int, int]:
            contradictions = sum(fixed.get(n, p) != p for n, p in itertools.pairwise(path))
            return contradictions, -sum(use[n] for n in path)

        best = min(longest[leaf], key=rank)  # min keeps the first of equals
        for node, parent in itertools.pairwise(best):
            fixed.setdefault(node, parent)
    tree = {}
    for leaf in classes:
        node = leaf
        while node != root:
            tree[node] = fixed[node]
            node = fixed[node]
    return tree


@settings(max_examples=100)
@given(st.data())
def test_the_path_rule_equals_a_literal_one_on_random_graphs(data):
    size = data.draw(st.integers(2, 14))
    edges = []
    for node in range(1, size):
        above = data.draw(st.lists(st.integers(0, node - 1), min_size=1, max_size=3, unique=True))
        edges += [(str(parent), str(node)) for parent in above]
    inner = {parent for parent, _ in edges}
    classes = list(dict.fromkeys(child for _, child in edges if child not in inner))
    settled = settle_dag(edges)
    tree = settled.taxonomy
    chosen = {tree.ids[n]: tree.ids[tree.parents[n]] for n in range(1, len(tree))}
    expected = literal_path_rule(edges, classes, "0")
    assert expected.items() <= chosen.items()
    # whatever the rule leaves out stays, on an edge of the graph, and its lowest nodes are named
    assert sorted(tree.ids) == sorted({"0", *(node for edge in edges for node in edge)})
    assert set(chosen.items()) <= {(child, parent) for parent, child in edges}
    assert {tree.ids[leaf] for leaf in tree.leaves} == {*classes, *settled.became_leaves}
    assert not {*settled.became_leaves} & {"0", *expected}
    assert len(settled.dropped_edges) == len(edges) - len(chosen)


def test_many_paths_do_not_take_forever():
    edges, above = [], ["0"]
    for level in range(40):  # 2 ** 40 paths
        here = [f"{level}a", f"{level}b"]
        edges += [(p, c) for c in here for p in above]
        above = here
    tree = from_dag([*edges, ("39a", "x"), ("39b", "x")])
    assert tree.properties()["max_depth"] == 41


def test_paths_that_agree_with_the_images():
    # sports car and truck drive; a person is organism or causal agent. Features that put the
    # person beside the dog must choose the path through organism, the longer causal one otherwise.
    classes = ["dog.n.01", "oak.n.01", "person.n.01", "bomb.n.01", "acid.n.01"]
    nouns = wordnet()
    person = nouns.find("person.n.01")
    assert nouns.hypernyms(person) == ["n00004475", "n00007347"]  # organism, causal agent
    like_organisms = np.array([[1, 0.1, 0], [0.9, 0, 0.1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    tree = full_taxonomy(classes, features=like_organisms)
    path = [tree.names[n] for n in tree.path(tree.index(person))]
    assert "organism" in path
    plain = full_taxonomy(classes)
    assert {plain.ids[n] for n in plain.leaves} == {tree.ids[n] for n in tree.leaves}


def test_the_image_choice_is_repeatable_and_depends_on_the_images():
    rng = np.random.default_rng(3)
    classes = list(class_list("cifar100").wnids)[:30]
    features = rng.normal(size=(30, 4))
    tree = full_taxonomy(classes, features=features)
    assert {tree.ids[n] for n in tree.leaves} == set(classes)
    assert tree == full_taxonomy(classes, features=features.copy())
    several = [c for c in classes if len(all_paths(hypernym_graph(classes), c, "n00001930")) > 1]
    assert several  # the option has something to choose here
    assert tree != full_taxonomy(classes)


def hypernym_graph(classes: list[str]) -> dict[str, list[str]]:
    from fedgrain.taxonomy.wordnet import _hypernym_graph

    return _hypernym_graph(wordnet(), classes, "n00001930")


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=12))
def test_spearman_equals_scipy(pairs):
    a, b = np.array(pairs, dtype=float).T
    if np.ptp(a) and np.ptp(b):
        assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)
    else:
        assert spearman(a, b) == 0


@pytest.mark.parametrize(
    ("classes", "root", "message"),
    [
        (["n02084071", "n99999999"], "physical_entity", "'n99999999' is not a noun of WordNet 3.0"),
        (["n02086723"], "physical_entity", "not a noun of WordNet 3.0.*3.1"),  # dog in WordNet 3.1
        (
            ["dog.n.01", "puppy.n.01", "dog.n.01"],
            "physical_entity",
            "class 3 is a duplicate of class 1",
        ),
        (
            ["canine.n.02", "dog.n.01"],
            "physical_entity",
            r"n02083346 \(canine\) is above class n02084071",
        ),
        (
            ["dog.n.01", "happiness.n.01"],
            "physical_entity",
            r"\(happiness\) does not reach .*entity\.n\.01",
        ),
        (["dog.n.99"], "physical_entity", "'dog' has 7 noun senses"),
        (["kite"], "physical_entity", "'kite' has 4 noun senses; choose one of"),
        (["bananna"], "physical_entity", "did you mean bandanna, banana"),
        ([], "physical_entity", "empty"),
    ],
)
def test_bad_classes_are_named(classes, root, message):
    with pytest.raises(TaxonomyError, match=message):
        full_taxonomy(classes, root)


def test_the_root_entity_holds_every_noun():
    tree = full_taxonomy(["dog.n.01", "happiness.n.01", "seven.n.01"], root="entity.n.01")
    assert tree.names[0] == "entity"
    assert len(tree.leaves) == 3

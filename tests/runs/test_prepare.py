"""From a config to a federation: who holds what, and what they write."""

import json
from dataclasses import replace

import numpy as np
import pytest

import own_parts
from fedgrain.errors import KnowledgeError
from fedgrain.knowledge import project, relational_neighbours
from fedgrain.preparation.prepare import prepare, prepare_from, server_validation
from own_parts import few_glyphs


def manifest_like():
    """Images of three sites named by a manifest; the third has none to train on."""
    data = few_glyphs()
    sites = np.arange(len(data), dtype=np.int32) % 2
    splits = data.splits.copy()
    splits[:40] = 2
    sites[splits == 1] = 2
    return replace(
        data,
        splits=splits,
        split_names=("train", "test", "validation"),
        clients=sites,
        client_names=("oslo", "rome", "kiel"),
    )


@pytest.fixture(autouse=True)
def known_to_the_loader(monkeypatch) -> None:
    monkeypatch.setattr(own_parts, "manifest_like", manifest_like, raising=False)


def test_clients_write_the_deepest_node_they_know(small) -> None:
    federation = prepare(small()).federation
    data = few_glyphs()
    knowledge = relational_neighbours(data.taxonomy, 4, 0.5, 47)
    written = project(federation.taxonomy, knowledge)
    for number, client in enumerate(federation.clients):
        for image, label in zip(client.train.indices[:20], client.train.labels[:20], strict=True):
            leaf = federation.taxonomy.index(data.taxonomy.ids[data.labels[image]])
            path = federation.taxonomy.path(leaf)
            known = [node for node in path if client.knows[node]]
            assert label == known[-1] == written.of_nodes[number, leaf]


def test_a_share_of_the_labels_at_leaves_is_written_one_level_too_coarse(small) -> None:
    honest, lazy, again = (
        prepare(small(lazy_labels=share)).federation for share in (0.0, 0.3, 0.3)
    )
    taxonomy = honest.taxonomy
    for client, late, twin in zip(honest.clients, lazy.clients, again.clients, strict=True):
        assert np.array_equal(client.train.indices, late.train.indices)
        assert np.array_equal(late.train.labels, twin.train.labels)
        at_leaf = np.isin(client.train.labels, taxonomy.leaves)
        changed = client.train.labels != late.train.labels
        assert changed.sum() == int(0.3 * at_leaf.sum() + 0.5) > 0
        assert not (changed & ~at_leaf).any()
        parents = taxonomy.parents[client.train.labels[changed]]
        assert np.array_equal(late.train.labels[changed], parents)


def test_of_three_mixed_clients_one_is_lazy_and_one_has_a_long_tail(small) -> None:
    plain, lazy, mixed, again = (
        prepare(small(**given)).federation.clients
        for given in ({}, {"lazy_labels": 0.5}, *[{"lazy_labels": 0.5, "mixed_clients": True}] * 2)
    )
    assert len(mixed) == 4
    for number, client in enumerate(mixed):
        like = lazy[number] if number % 3 == 0 else plain[number]
        assert np.array_equal(client.train.indices, again[number].train.indices)
        if number != 2:
            assert np.array_equal(client.train.indices, like.train.indices)
            assert np.array_equal(client.train.labels, like.train.labels)
    whole, tail = plain[2].train.indices, mixed[2].train.indices
    assert np.isin(tail, whole).all()
    classes = few_glyphs().labels
    before, after = (np.bincount(classes[images], minlength=200) for images in (whole, tail))
    shares = np.sort(after[before > 3] / before[before > 3])
    assert shares[-1] > 0.8 and shares[0] == 0.0
    assert abs(len(tail) / len(whole) - 0.21) < 0.08  # the mean of 100 ** -x for x from 0 to 1


@pytest.mark.parametrize("wrong", ["siblings:0.2", "shifted", "spelling"])
def test_wrong_labels_are_leaves_of_the_same_family_or_one_misread_name(small, wrong) -> None:
    honest, faulty, again = (
        prepare(small(wrong_labels=kind)).federation for kind in (None, wrong, wrong)
    )
    tree = honest.taxonomy
    for number, client in enumerate(honest.clients):
        labels, found = client.train.labels, faulty.clients[number].train.labels
        assert np.array_equal(found, again.clients[number].train.labels)
        changed = labels != found
        assert tree.is_leaf(labels[changed]).all() and tree.is_leaf(found[changed]).all()
        same_family = tree.parents[labels[changed]] == tree.parents[found[changed]]
        if wrong == "spelling":
            assert len(set(labels[changed])) == len(set(found[changed])) == 1
            assert not same_family.any()
        elif wrong == "shifted" and number:
            assert not changed.any()
        else:
            at_leaves = tree.is_leaf(labels)
            assert same_family.all() and changed.any()
            assert wrong == "shifted" or changed.sum() <= int(0.2 * at_leaves.sum() + 0.5)


def test_a_simulation_may_infer_what_clients_know_from_the_labels_they_write(small) -> None:
    given = prepare(small(lazy_labels=0.3)).federation
    inferred = prepare(small(lazy_labels=0.3, infer_knowledge=True)).federation
    for told, found in zip(given.clients, inferred.clients, strict=True):
        assert np.array_equal(told.train.labels, found.train.labels)
        tree, wrote = given.taxonomy, set(found.train.labels.tolist())
        below = [sum(v in tree.path(label) for label in wrote) for v in range(len(tree))]
        unwritten = np.array(below) == 0
        unwritten[0] = False
        assert not found.knows[unwritten].any() and (told.knows | ~found.knows).all()
        assert found.knows[tree.leaves].sum() > 1


def test_the_seed_decides_everything(small) -> None:
    one, same, other = (prepare(small(seed=seed)).federation for seed in (47, 47, 48))
    for client, twin in zip(one.clients, same.clients, strict=True):
        assert np.array_equal(client.train.indices, twin.train.indices)
        assert np.array_equal(client.train.labels, twin.train.labels)
    assert not np.array_equal(one.clients[0].train.indices, other.clients[0].train.indices)
    assert not np.array_equal(one.validation.indices, other.validation.indices)


def test_clients_hold_out_their_own_where_the_server_has_none(small) -> None:
    federation = prepare(small(validation="clients")).federation
    assert federation.validation is None
    numbers = [
        part.indices for client in federation.clients for part in (client.train, client.validation)
    ]
    everyone = np.concatenate(numbers)
    assert sorted(everyone.tolist()) == list(range(256))
    for client in federation.clients:
        share = len(client.validation) / (len(client.validation) + len(client.train))
        assert 0.1 < share < 0.35
        assert set(client.validation.labels) <= set(client.train.labels)


@pytest.mark.parametrize("min_count", [None, 2])
def test_inferred_knowledge_of_a_manifest(small, min_count) -> None:
    settings = {"dataset": "own_parts:manifest_like", "partition": "manifest"}
    config = small(knowledge="inferred", coarsen=False, min_count=min_count, **settings)
    federation = prepare(config).federation
    assert [client.name for client in federation.clients] == ["oslo", "rome", "kiel"]
    assert [len(client.train) for client in federation.clients] == [108, 108, 0]
    data = manifest_like()
    for client in federation.clients[:2]:
        assert np.array_equal(client.train.labels, data.labels[client.train.indices])
        counts = np.bincount(client.train.labels, minlength=len(data.taxonomy))
        slips = 3  # that 108 labels explain: 1.08 and two standard deviations, 2.08
        least = min_count or (1 if (counts == 1).sum() > slips else 2)
        leaves = data.taxonomy.leaves
        assert np.array_equal(client.knows[leaves], counts[leaves] >= least)
    assert federation.clients[2].knows.sum() == 1  # nothing but the root
    assert sorted(federation.validation.indices.tolist()) == list(range(40))


def test_a_knowledge_file_is_read_by_the_names_of_the_manifest(small, tmp_path) -> None:
    tree = few_glyphs().taxonomy
    top = [tree.ids[child] for child in tree.children(0)]
    knows = {"kiel": [], "rome": top[:1], "oslo": top}  # another order than the manifest's
    entries = [{"name": name, "known": [tree.ids[0], *nodes]} for name, nodes in knows.items()]
    file = tmp_path / "knowledge.json"
    file.write_text(json.dumps({"clients": entries}))
    settings = {"dataset": "own_parts:manifest_like", "partition": "manifest", "coarsen": False}
    with pytest.warns(UserWarning, match=r"knowledge.json: oslo wrote '\S+' \d+ times, .* more"):
        federation = prepare(small(knowledge=str(file), **settings)).federation
    for client in federation.clients:  # real labels, whatever the file says
        assert np.array_equal(client.train.labels, manifest_like().labels[client.train.indices])
    found = {client.name: int(client.knows.sum()) for client in federation.clients}
    assert found == {name: 1 + len(nodes) for name, nodes in knows.items()}
    entries[0]["name"] = "bonn"
    file.write_text(json.dumps({"clients": entries}))
    with pytest.raises(KnowledgeError, match="no client 'kiel', only bonn, rome, oslo; give an"):
        prepare(small(knowledge=str(file), **settings))


def test_validation_images_of_a_manifest_stay_with_their_clients(small) -> None:
    settings = {"dataset": "own_parts:manifest_like", "partition": "manifest"}
    config = small(knowledge="inferred", validation="clients", **settings)
    federation = prepare(config).federation
    assert federation.validation is None
    assert [client.validation.indices.tolist() for client in federation.clients] == [
        list(range(0, 40, 2)),
        list(range(1, 40, 2)),
        [],
    ]
    assert [len(client.train) for client in federation.clients] == [108, 108, 0]


def test_a_site_with_nothing_left_to_train_on_is_told(small) -> None:
    """The one image of kiel is held out at the server, which sees only labels."""
    data = replace(manifest_like(), splits=few_glyphs().splits)
    config = small(partition="manifest", knowledge="inferred", coarsen=False).complete()
    held_out, *_ = server_validation(config, data)
    clients = data.clients.copy()
    clients[held_out] = data.client_names.index("kiel")
    with pytest.warns(UserWarning, match="nothing is left to train on at kiel: all its training"):
        prepare_from(config, replace(data, clients=clients))


def test_test_labels_that_tell_nothing_are_told(small) -> None:
    data = few_glyphs()
    labels = data.labels.copy()
    labels[data.split_indices("test")[:3]] = 0
    with pytest.warns(UserWarning, match=r"3 test labels are the root of the taxonomy.* of \d+:"):
        prepare_from(small().complete(), replace(data, labels=labels))


@pytest.mark.parametrize(("side", "net"), [(32, "cnn-32"), (64, "cnn-64"), (96, "squeezenet")])
def test_the_net_follows_the_image_size(small, monkeypatch, side, net) -> None:
    data = few_glyphs()
    large = replace(data, images=np.zeros((len(data), side, side, 3), np.uint8))
    monkeypatch.setattr(own_parts, "large", lambda: large, raising=False)
    assert prepare(small(dataset="own_parts:large", net=None)).spec.net == net

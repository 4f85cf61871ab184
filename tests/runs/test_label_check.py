"""What a model finds about the labels of a site, and how it is shown."""

import json
from dataclasses import replace

import numpy as np
import pytest

import fedgrain
import own_parts
from fedgrain.models.label_check import Wrote, check_labels, wrote_as_client, wrote_by_site
from fedgrain.models.model_folder import load
from fedgrain.preparation.prepare import prepare
from fedgrain.terminal.labeller_text import FoundLabellers
from own_parts import annotated_glyphs, few_glyphs


@pytest.fixture(scope="module")
def folder(small, tmp_path_factory):
    place = tmp_path_factory.mktemp("run") / "run"
    fedgrain.run(small(head="flat-softmax", rounds=2, lr=0.3, coarsen=False), place)
    return place


@pytest.fixture(scope="module")
def model(folder):
    return load(folder, trust_code=True)


def test_a_labeller_is_seen_as_the_model_knows_the_images(model) -> None:
    """Labels that agree with the model, a third of them one level up, and one that cannot be."""
    data, tree = few_glyphs(), model.taxonomy
    table = model.node_log_probs(data.images).exp().numpy()
    seen = tree.leaves[table[:, tree.leaves].argmax(1)].astype(np.int64)
    labels, images = seen.copy(), np.arange(len(data))
    early = images % 3 == 0
    labels[early] = tree.parents[seen[early]]
    wrong = int(images[~early][0])
    labels[wrong] = tree.leaves[table[wrong, tree.leaves].argmin()]
    (found,) = check_labels(model, data.images, Wrote(images, labels, ("museum",)))
    assert (found.name, found.labels, found.in_full) == ("museum", len(data), int((~early).sum()))
    assert found.doubts[0].image == wrong and found.doubts[0].seems == seen[wrong]
    assert found.doubts[0].probability == pytest.approx(table[wrong, labels[wrong]], abs=1e-6)
    often = [leaf for leaf in np.unique(seen) if (labels == leaf).sum() >= 4]
    assert often and set(often) <= set(found.known)
    depths, counts = np.unique(tree.depth[labels[early]], return_counts=True)
    assert found.early[int(depths[counts.argmax()])] > 0.1


def test_sites_and_annotators_are_told_apart_and_shown(model) -> None:
    data = annotated_glyphs()
    sites = wrote_by_site(model, data)
    assert [site.names for site in sites] == [
        ("oslo, annotator expert", "oslo, annotator novice"),
        ("rome, annotator (not named)",),
    ]
    found = [who for site in sites for who in check_labels(model, data.images, site)]
    expert, novice, rome = found
    assert expert.in_full == expert.labels > 0 and novice.in_full == 0
    assert expert.labels + novice.labels + rome.labels == data.split_counts["train"]
    assert len(novice.known) < len(expert.known)
    text = "\n".join(FoundLabellers(found, model.taxonomy).lines(None))
    assert f"oslo, annotator novice: {novice.labels} labels" in text
    assert (
        f"seems to know {len(expert.known)} of 32 classes" in text
        and "labels that look wrong" in text
    )
    alone = replace(data, clients=None, client_names=(), annotators=None, annotator_names=())
    assert [site.names for site in wrote_by_site(model, alone)] == [(data.name,)]


def test_a_run_and_the_data_name_the_same_labellers(model, small) -> None:
    """The report asks about the clients of a run, `data show` about the manifest: one answer."""
    data = annotated_glyphs()
    sites = {"dataset": "own_parts:annotated_glyphs", "partition": "manifest", "clients": 2}
    config = small(**sites, knowledge="inferred", coarsen=False, validation="server")
    clients = prepare(config.complete()).federation.clients
    for client, site in zip(clients, wrote_by_site(model, data), strict=True):
        wrote = wrote_as_client(client, data)
        assert wrote.names == site.names
        rows = np.isin(site.images, wrote.images)
        assert np.array_equal(site.images[rows], np.sort(wrote.images))
        order = np.argsort(wrote.images)
        assert np.array_equal(wrote.who[order], site.who[rows])
    few = wrote.some(np.arange(5))
    assert len(few.labels) == len(few.images) == len(few.who) == 5 and few.names == wrote.names


def test_data_show_asks_a_model(folder, capsys, monkeypatch) -> None:
    from fedgrain.cli import main

    monkeypatch.setattr(own_parts, "few_glyphs", annotated_glyphs)
    show = ["data", "show", "--dataset", "own_parts:few_glyphs", "--json"]
    main([*show, "--model", str(folder), "--trust-code"])
    expert, *_ = json.loads(capsys.readouterr().out)["labellers"]
    assert expert["name"] == "oslo, annotator expert"
    assert set(expert) == {
        "name", "labels", "in_full", "known_classes", "stops_early", "look_wrong"
    }  # fmt: skip
    for doubt in expert["look_wrong"]:
        assert doubt["probability"] < 0.05 and doubt["seems"] != doubt["label"]

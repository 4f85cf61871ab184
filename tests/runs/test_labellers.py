"""Annotators within a client: from the manifest's column to the loss, and the files about them."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import fedgrain
import own_parts
from fedgrain.data.model_labels import model_annotator
from fedgrain.errors import KnowledgeError
from fedgrain.knowledge.inference import infer
from fedgrain.preparation.client_knowledge import client_knowledge
from fedgrain.preparation.labellers import NOT_NAMED
from fedgrain.preparation.prepare import prepare, prepare_from
from own_parts import annotated_glyphs, few_glyphs

SITES = {
    "dataset": "own_parts:annotated_glyphs",
    "partition": "manifest",
    "coarsen": False,
    "clients": 2,
}
NAMED = ("oslo, annotator expert", "oslo, annotator novice", f"rome, annotator {NOT_NAMED}")


@pytest.fixture
def inferring(small):
    return lambda **settings: small(**SITES, knowledge="inferred", **settings).complete()


def test_what_annotators_know_is_inferred_apart(inferring) -> None:
    data = annotated_glyphs()
    parts = [data.split_indices("train")[data.clients[data.splits == 0] == site] for site in (0, 1)]
    knowledge = client_knowledge(inferring(), data, parts)
    assert knowledge.row_names == NAMED
    leaves = data.taxonomy.leaves
    assert knowledge.known[0, leaves].any() and not knowledge.known[1, leaves].any()
    for row, (site, person) in enumerate([(0, 0), (0, 1), (1, -1)]):
        own = parts[site][data.annotators[parts[site]] == person]
        used = np.bincount(data.labels[own], minlength=len(data.taxonomy))
        assert np.array_equal(knowledge.known[row, leaves], used[leaves] >= infer(used).min_count)


def test_every_label_goes_with_what_its_annotator_knows(inferring) -> None:
    data = annotated_glyphs()
    oslo, rome = prepare(inferring(validation="clients")).federation.clients
    assert len(oslo.known) == 3  # the expert, the novice and anyone else
    assert np.array_equal(oslo.known[2], oslo.known[0] | oslo.known[1])
    assert np.array_equal(oslo.knows, oslo.known[2])
    assert np.array_equal(oslo.train.labellers, data.annotators[oslo.train.indices])
    assert set(rome.train.labellers) == {0}
    assert set(oslo.validation.labellers) == {2} and set(rome.validation.labellers) == {1}
    pooled = prepare(inferring(pooled=True, supervision="paper")).federation.clients[0]
    assert pooled.known.shape == (1, len(data.taxonomy)) and pooled.train.labellers is None


@pytest.mark.parametrize(
    ("settings", "workers"),  # two processes once for each stage, and where clients validate
    [
        ({"algorithm": "fedbdft"}, [1]),
        ({"head": "flat-softmax", "responsibilities": "round"}, [1]),
        ({"head": "ps-softmax", "laziness": 0.1, "validation": "clients"}, [1, 2]),
        ({"head": "flat-softmax", "supervision": "learned"}, [1]),
        ({"algorithm": "fedbdft", "supervision": "learned"}, [1, 2]),
    ],
    ids=lambda given: ", ".join(map(str, given.values())) if isinstance(given, dict) else "",
)
def test_a_run_reads_them_apart_with_the_same_bits_for_any_workers(
    inferring, tmp_path, monkeypatch, settings, workers
) -> None:
    short = {"rounds": 1, "cycles": 1, "join_ratio": 1.0, "min_count": 1}
    config = inferring(**{"supervision": "projection", **short, **settings})
    for number in workers:
        result = fedgrain.run(config, tmp_path / str(number), workers=number)
        assert result.values["rounds"] == 1
        lines = (tmp_path / str(number) / "metrics.jsonl").read_text().splitlines()
        assert all(json.loads(line)["faults"] == [] for line in lines)
    one, *two = ((tmp_path / str(n) / "best.safetensors").read_bytes() for n in workers)
    assert all(other == one for other in two)
    blurred = replace(annotated_glyphs(), annotators=None, annotator_names=())
    monkeypatch.setattr(own_parts, "blurred_glyphs", lambda: blurred, raising=False)
    as_one = replace(config, dataset="own_parts:blurred_glyphs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the novice wrote, an expert could not have written
        fedgrain.run(as_one, tmp_path / "blurred", workers=1)
    assert (tmp_path / "blurred" / "best.safetensors").read_bytes() != one


def entries(**annotators: list[str]) -> str:
    people = [{"name": name, "known": known} for name, known in annotators.items()]
    rome = [{"name": "x", "known": annotators["expert"]}]
    clients = [{"name": "rome", "annotators": rome}, {"name": "oslo", "annotators": people}]
    return json.dumps({"clients": clients})


def test_a_knowledge_file_may_tell_annotators_apart(small, tmp_path, monkeypatch) -> None:
    data, file = annotated_glyphs(), tmp_path / "known.json"
    tree, everything = data.taxonomy, list(data.taxonomy.ids)
    above = [node for node in everything if not np.isin(tree.index(node), tree.leaves)]
    config = small(**SITES, knowledge=str(file), supervision="marginal")
    file.write_text(entries(novice=above, expert=everything))
    oslo, rome = prepare(config).federation.clients
    assert [int(known.sum()) for known in oslo.known] == [len(above), len(tree), len(tree)]
    assert set(oslo.train.labellers[data.annotators[oslo.train.indices] == 1]) == {0}  # the novice
    assert set(rome.train.labellers) == {1}  # nobody is named, and x is somebody
    assert np.array_equal(oslo.train.labels, data.labels[oslo.train.indices])
    file.write_text(entries(novice=above, expert=above))
    with pytest.warns(UserWarning, match=r"oslo, annotator expert wrote '\S+' \d+ times"):
        prepare(config)
    file.write_text(entries(expert=everything))
    with pytest.raises(KnowledgeError, match=r"known.json: there is no annotator 'novice' of cli"):
        prepare(config)
    blurred = replace(data, annotators=None, annotator_names=())
    monkeypatch.setattr(own_parts, "annotated_glyphs", lambda: blurred)
    with pytest.raises(KnowledgeError, match="add the column annotator to it, or give one entry"):
        prepare(config)


def test_other_annotators_are_other_data() -> None:
    data = annotated_glyphs()
    swapped = replace(data, annotators=data.annotators[::-1].copy())
    renamed = replace(data, annotator_names=("a", "b", "c"))
    assert len({one.fingerprint for one in (data, swapped, renamed)}) == 3


def refined_glyphs(*, people: bool):
    """Two sites without validation images; a model wrote the labels of oslo, or half of them."""
    data = few_glyphs()
    clients = annotated_glyphs().clients
    oslo = np.flatnonzero(clients == 0)
    annotators = np.full_like(clients, -1)
    annotators[oslo] = 1
    annotators[oslo[: len(oslo) // 2 * people]] = 0
    return replace(
        data, clients=clients, client_names=("oslo", "rome"),
        annotators=annotators, annotator_names=("expert", model_annotator(2)),
    )  # fmt: skip


@pytest.mark.parametrize("validation", ["server", "clients"])
def test_labels_that_a_model_wrote_are_not_held_out(inferring, validation) -> None:
    data, config = refined_glyphs(people=True), inferring(validation=validation)
    federation = prepare_from(config, data).federation
    parts = [federation.validation, *(client.validation for client in federation.clients)]
    held_out = np.concatenate([part.indices for part in parts if part is not None])
    assert set(data.annotators[held_out].tolist()) == {0, -1}  # the expert, and rome's nobody
    trained = np.concatenate([client.train.indices for client in federation.clients])
    models = np.flatnonzero((data.annotators == 1) & (data.splits == 0))
    assert np.isin(models, trained).all()


def test_a_site_with_a_models_labels_only_is_told_so(inferring) -> None:
    data = refined_glyphs(people=False)
    with pytest.warns(UserWarning, match="labels of the client oslo were written by a model"):
        oslo, _ = prepare_from(inferring(validation="clients"), data).federation.clients
    assert len(oslo.validation)

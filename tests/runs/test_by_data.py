"""Defaults that the user's own data decides: the federation, who joins, the size of images."""

import json
import warnings
from dataclasses import replace
from typing import Any

import pytest

import fedgrain
from fedgrain.config.by_data import completed
from fedgrain.config.config_texts import read_config
from fedgrain.errors import RunError
from fedgrain.runs.run_folder import RunFolder
from own_site import own, site


def test_a_manifest_that_names_clients_is_a_real_federation(tmp_path) -> None:
    config = completed(own(site(tmp_path / "few")))
    assert (config.partition, config.knowledge, config.supervision) == (
        "manifest", "inferred", "learned"
    )  # fmt: skip
    assert (config.alpha, config.clients, config.join_ratio) == (None, None, 1.0)
    assert config.image_size == 28  # the median of the shorter sides, not 64
    assert completed(config) == config
    many = completed(own(site(tmp_path / "many", clients=11)))
    assert (many.partition, many.join_ratio) == ("manifest", 0.5)
    by_file = completed(own(tmp_path / "few", knowledge="known.json"))
    assert (by_file.partition, by_file.supervision) == ("manifest", "projection")


def test_without_clients_a_federation_is_simulated(tmp_path) -> None:
    config = completed(own(site(tmp_path / "own", column=False)))
    assert (config.partition, config.knowledge, config.supervision) == (
        "iid", "relational", "paper"
    )  # fmt: skip
    assert (config.alpha, config.clients, config.join_ratio) == (0.9, 10, 0.5)
    asked = completed(own(site(tmp_path / "named"), alpha=0.5, clients=2))
    assert (asked.partition, asked.knowledge, asked.alpha, asked.clients) == (
        "iid", "relational", 0.5, 2
    )  # fmt: skip


@pytest.mark.parametrize(
    ("side", "net", "expected"),
    [
        (28, None, 28),
        (90, None, 64),  # more pixels cost time: only who asks gets them
        (6, None, 16),  # the smallest that a net takes
        (20, "cnn-64", 36),
        (300, "squeezenet", 224),
        (28, "own_parts:TinyNet", 64),  # what it takes is not known
    ],
)
def test_the_size_of_images_is_their_own(tmp_path, side, net, expected) -> None:
    place = site(tmp_path / "own", side, clients=1)
    assert completed(own(place, net=net)).image_size == expected
    assert completed(own(place, net=net, image_size=40)).image_size == 40


def test_a_run_records_what_the_data_decided_and_resumes_with_it(tmp_path) -> None:
    place, folder = site(tmp_path / "own", side=16), tmp_path / "run"
    short = {"net": "own_parts:TinyNet", "rounds": 1, "batch": 4}
    result = fedgrain.run(own(place, image_size=16, **short), folder)
    text = (folder / "config.toml").read_text()
    assert "# alpha is not set" in text and "# clients is not set" in text
    assert 'partition = "manifest"' in text and "join_ratio = 1.0" in text
    assert result.values["config"]["alpha"] is None
    joined = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])["clients"]
    assert [client["client"] for client in joined] == ["site 0", "site 1", "site 2"]
    manifest = place / "images.csv"
    manifest.write_text(manifest.read_text().replace("site 2", "site 1"))
    kept = completed(own(place, **short), RunFolder(folder).begun())
    assert (kept.join_ratio, kept.image_size) == (1.0, 16)
    with pytest.raises(RunError, match="other images or labels"):
        fedgrain.run(replace(own(place, **short), rounds=2), folder)
    with pytest.raises(RunError, match="partition \\(manifest and iid\\)"):
        fedgrain.run(own(place, alpha=0.5, clients=2, image_size=16, **short), folder)


def test_a_run_of_an_older_version_goes_on_as_it_began(tmp_path) -> None:
    """It simulated ten clients, and did not record that its images have 64 pixels."""
    place, folder = site(tmp_path / "own"), tmp_path / "run"
    before = own(place, alpha=0.9, clients=10, partition="iid", knowledge="relational")
    folder.mkdir()
    (folder / "config.toml").write_text(before.complete().toml())
    assert read_config(folder / "config.toml").image_size is None
    again = completed(own(place), RunFolder(folder).begun())
    assert (again.partition, again.alpha, again.clients) == ("iid", 0.9, 10)
    assert (again.image_size, again.join_ratio, again.supervision) == (64, 0.5, "paper")
    RunFolder(folder).check(again)  # the same run


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"knowledge": "known.json"}, ("projection", "round")),
        ({"supervision": "marginal"}, ("marginal", "round")),
        ({"supervision": "projection", "responsibilities": "step"}, ("projection", "step")),
        ({"supervision": "projection", "head": "cond-softmax"}, ("projection", "step")),
        ({}, ("learned", "step")),  # shares labels out once a round in any case
        ({"alpha": 0.9}, ("paper", "step")),
    ],
)
def test_own_labels_are_shared_out_once_a_round_where_the_head_can(
    tmp_path, given: dict[str, Any], wanted: tuple[str, str]
) -> None:
    place = site(tmp_path / "own", side=16)
    found = completed(own(place, **given))
    assert (found.supervision, found.responsibilities) == wanted
    older = replace(found, responsibilities="step")  # begun when another default held
    assert completed(own(place, **given), older).responsibilities == "step"


def test_contradicting_labels_of_all_sites_are_one_warning(tmp_path) -> None:
    """Each site names both classes, and twice writes the root instead; it holds one of them out."""
    place = site(tmp_path / "own", side=16)
    rows = (place / "images.csv").read_text().splitlines()
    for number in (0, 1, 8, 9, 16, 17):
        rows[number + 1] = rows[number + 1].replace("dark", "all").replace("light", "all")
    (place / "images.csv").write_text("\n".join(rows) + "\n")
    config = own(place, net="own_parts:TinyNet", rounds=2, image_size=16, supervision="projection",
                 validation="clients")  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fedgrain.run(config, workers=1)
    (one,) = [str(entry.message) for entry in caught]
    assert one.startswith("3 of 12 labels (site 0 1, site 1 1, site 2 1) contradict")
    assert "--knowledge FILE.json" in one and "--min-count" in one

"""With no flag but the data, a run ends within 0.01 HF of the best choice of flags."""

import warnings
from pathlib import Path

import pytest

import fedgrain
from fedgrain import Config
from projected_site import projected_site

WITHIN = 0.01
# of every run alike, so that it takes seconds
FAST = {"net": "own_parts:SmallNet", "image_size": 32, "rounds": 30, "lr": 0.1}
SUPERVISIONS = ("marginal", "projection", "learned")  # paper is marginal for cond-softmax


def hf(place: Path, **flags) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that contradict what was inferred
        config = Config(dataset="folder", data_root=str(place), **FAST, **flags)
        return fedgrain.run(config, workers=1).hf


@pytest.fixture(scope="module")
def projected(tmp_path_factory) -> tuple[Path, dict[str, float]]:
    """Sites that write the deepest node they know, and the HF of every supervision."""
    place = projected_site(tmp_path_factory.mktemp("projected") / "own")
    return place, {name: hf(place, supervision=name) for name in SUPERVISIONS}


def test_the_defaults_find_out_how_labellers_write(projected) -> None:
    place, by_flag = projected
    assert hf(place) >= max(by_flag.values()) - WITHIN
    assert max(by_flag.values()) > by_flag["marginal"] + 2 * WITHIN  # the choice matters


def test_the_defaults_use_what_the_sites_say_they_know(projected) -> None:
    place, by_flag = projected
    known = str(place / "knowledge.json")
    by_default = hf(place, knowledge=known)
    others = [*by_flag.values(), hf(place, knowledge=known, supervision="marginal")]
    assert by_default >= max(others) - WITHIN

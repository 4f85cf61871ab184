"""With no flag but the data, a run ends within 0.01 HF of the best choice of flags."""

import warnings

import fedgrain
from fedgrain import Config
from projected_site import projected_site

WITHIN = 0.01
FAST = {"net": "own_parts:SmallNet", "image_size": 32, "rounds": 30}  # of every run alike


def hf(place, **flags) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that contradict inferred knowledge
        config = Config(dataset="folder", data_root=str(place), **FAST, **flags)
        return fedgrain.run(config, workers=1).hf


def test_the_defaults_use_what_the_sites_say_they_know(tmp_path) -> None:
    place = projected_site(tmp_path / "own")
    known = str(place / "knowledge.json")
    by_default = hf(place, knowledge=known)
    flags = [{"knowledge": known, "supervision": name} for name in ("paper", "marginal")]
    flags += [{"supervision": name} for name in ("paper", "marginal", "projection")]
    assert by_default >= max(hf(place, **one) for one in flags) - WITHIN

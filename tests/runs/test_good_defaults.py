"""With no flag but the data, a run ends within 0.01 HF of the best choice of flags."""

import warnings
from pathlib import Path

import pytest

import fedgrain
from fedgrain import Config
from projected_site import projected_site

WITHIN = 0.01
# of every run alike, so that it takes seconds
FAST = {"net": "own_parts:SmallNet", "image_size": 32, "rounds": 30}
SUPERVISIONS = ("marginal", "projection", "learned")  # paper is marginal for cond-softmax


def hf(place: Path, **flags) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that contradict what was inferred
        config = Config(dataset="folder", data_root=str(place), **FAST, **flags)
        return fedgrain.run(config, workers=1).hf


@pytest.mark.parametrize("lazy", [0.0, 0.5], ids=["careful", "lazy"])
def test_the_defaults_find_out_how_labellers_write(tmp_path, lazy: float) -> None:
    """Sites write the deepest node they know; lazy ones its parent for half of their leaves."""
    place = projected_site(tmp_path / "own", lazy=lazy)
    flags = {name: hf(place, supervision=name, lr=0.1) for name in ("marginal", "projection")}
    best = max(flags.values())
    assert hf(place) >= best - WITHIN
    assert best > flags["marginal"] + WITHIN  # the choice matters
    if not lazy:  # what the sites say they know is used without a flag
        assert hf(place, knowledge=str(place / "knowledge.json")) >= best - WITHIN

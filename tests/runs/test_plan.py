"""The plan of a run: what is real, what is simulated, and why a site counts as knowing a class."""

import pytest

from fedgrain import Config
from fedgrain.cli.run import progress_bar, time_left
from fedgrain.config.by_data import completed
from fedgrain.preparation.plan import plan_of
from fedgrain.preparation.prepare import prepare
from own_site import own, site


def lines_of(config: Config) -> dict[str, str]:
    config = completed(config)
    found = plan_of(config, prepare(config))
    return {line.split()[0]: line for line in found}


def test_a_real_federation_is_shown_site_by_site(tmp_path) -> None:
    place = site(tmp_path / "own", side=28)
    found = lines_of(own(place, head="flat-softmax", rounds=7, validation="clients"))
    assert list(found)[:3] == ["data", "federation", "site"]
    assert "24 images of 28 x 28 pixels (train 21, test 3); 2 classes, 1 branches" in found["data"]
    told = found["federation"]
    assert "real labels: 3 sites by the manifest" in told and "all train in every round" in told
    assert found["site"].split()[:2] == ["site", "2"] and "1: 5" in found["site"]
    assert "2 of 2 classes  no label occurs once" in found["site"]
    assert "by the sites" in found["validation"] and "100% of their labels" in found["validation"]
    assert found["model"].endswith("net cnn-32, head flat-softmax, supervision learned")
    assert "at most 7 rounds of fedavg" in found["training"]


def test_a_simulation_is_called_one(tmp_path) -> None:
    place = site(tmp_path / "own", side=16, clients=6, column=False)
    with pytest.warns(UserWarning, match="labels are made coarser, for a simulation"):
        found = lines_of(own(place, algorithm="fedbdft", cycles=3))
    assert "simulated: 10 made-up clients" in found["federation"]
    assert "(relational, alpha 0.9)" in found["federation"]
    assert "labels are made coarser; 5 train in a round" in found["federation"]
    assert "at most 100 rounds of fedavg, then at most 3 cycles of fedbdft" in found["training"]
    assert "site" not in found


def test_the_time_left_is_told_after_a_round() -> None:
    line = {"stage": "fedavg", "round": 1, "seconds": 12.0}
    assert time_left(Config(rounds=51), line).startswith(
        "round 1 took 12.0 s: at most 50 more take about 10 min"
    )
    both = time_left(Config(algorithm="fedbdft", rounds=3, cycles=9), line)
    assert "at most 2 more take about 24 s, then 9 cycles" in both


@pytest.mark.parametrize(("second", "told"), [(0.2, 2), (11.0, 1)])
def test_a_far_quicker_second_round_corrects_the_time_left(second, told, capsys) -> None:
    """The first round also starts processes: its time must not frighten anyone."""
    bar = progress_bar(Config(rounds=101))
    for number, seconds in enumerate((12.0, second, 0.1), start=1):
        bar.on_round_start("fedavg", number)
        line = {"stage": "fedavg", "round": number, "seconds": seconds, "faults": []}
        bar.on_round_end({**line, "validation_hf": 0.5})
    bar.close()
    said = capsys.readouterr().err
    assert "round 1 took 12.0 s: at most 100 more take about 20 min" in said
    assert said.count("more take about") == told
    assert ("round 2 took 0.2 s: at most 99 more take about 20 s" in said) is (told == 2)

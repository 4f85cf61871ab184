"""Any algorithm runs, stores, resumes and predicts through the same contract."""

import pytest
import torch

import fedgrain
from fedgrain.errors import ConfigError, RunError
from fedgrain.runs.rounds import Callback


class Stop(Callback):
    """End the run as a kill would, after some rounds."""

    def __init__(self, after):
        self.after = after

    def on_round_end(self, line):
        self.after -= 1
        if not self.after:
            raise KeyboardInterrupt


def weights(result):
    return result.model.net.state_dict()


@pytest.mark.parametrize(  # FedAvg with two: tests/engines/test_processes.py
    ("algorithm", "workers"), [("fedavg", 1), ("scaffold", 2), ("own_parts:LastWeights", 1)]
)
def test_resumed_in_a_folder_gives_the_same_bits(small, tmp_path, algorithm, workers):
    config = small(algorithm=algorithm)
    whole = fedgrain.run(config, workers=1)
    with pytest.raises(KeyboardInterrupt):
        fedgrain.run(config, tmp_path / "run", [Stop(2)], workers=1)
    resumed = fedgrain.run(config, tmp_path / "run", workers=workers)
    assert all(torch.equal(value, weights(resumed)[name]) for name, value in weights(whole).items())
    loaded = fedgrain.load(tmp_path / "run", trust_code=True)
    assert all(torch.equal(v, loaded.net.state_dict()[n]) for n, v in weights(whole).items())
    assert resumed.values["config"]["algorithm"] == algorithm


def test_scaffold_differs_from_fedavg_after_the_first_round(small):
    one, two = (fedgrain.run(small(algorithm=name), workers=1) for name in ("fedavg", "scaffold"))
    assert any(not torch.equal(v, weights(two)[n]) for n, v in weights(one).items())


def test_what_is_no_algorithm_is_told(small):
    with pytest.raises(ConfigError, match="made a dict, not a FederatedAlgorithm"):
        fedgrain.run(small(algorithm="builtins:vars"), workers=1)
    with pytest.raises(ConfigError, match="algorithm 'fedprox' does not exist; choose one of fed"):
        small(algorithm="fedprox")


def test_a_cosine_schedule_resumes_exactly_and_is_not_planned_anew(small, tmp_path):
    recipe = {"schedule": "cosine", "sam": 0.05, "label_smoothing": 0.1, "momentum": 0.9}
    config = small(algorithm="fedbdft", **recipe)
    whole = fedgrain.run(config, workers=1)
    for stop in (2, 2):  # in the first stage, and among the branches
        with pytest.raises(KeyboardInterrupt):
            fedgrain.run(config, tmp_path / "run", [Stop(stop)], workers=1)
    resumed = fedgrain.run(config, tmp_path / "run", workers=1)
    assert all(torch.equal(value, weights(resumed)[name]) for name, value in weights(whole).items())
    for name in recipe:  # each of them is used
        plain = {setting: value for setting, value in recipe.items() if setting != name}
        one, other = (fedgrain.run(small(rounds=2, **own), workers=1) for own in (recipe, plain))
        assert any(not torch.equal(v, weights(other)[n]) for n, v in weights(one).items())
    with pytest.raises(RunError, match="over 3 rounds, so the run cannot go on to 4; choose ano"):
        fedgrain.run(small(algorithm="fedbdft", **{**recipe, "rounds": 4}), tmp_path / "run")
    with pytest.raises(RunError, match="over 2 cycles, so the run cannot go on to 9"):
        fedgrain.run(small(algorithm="fedbdft", **{**recipe, "cycles": 9}), tmp_path / "run")
    assert fedgrain.run(config, tmp_path / "run").hf == resumed.hf


def test_settings_of_another_schedule_or_head_are_told(small):
    with pytest.raises(ConfigError, match="step_rounds is for schedule step, not for cosine"):
        small(schedule="cosine", step_rounds=5)
    with pytest.raises(ConfigError, match="over the leaves, which cond-sigmoid does not; choose"):
        small(head="cond-sigmoid", label_smoothing=0.1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_result_says_what_it_cost(small, workers):
    """Each client of a round is sent the weights and sends them back, four bytes a number."""
    result = fedgrain.run(small(rounds=2), workers=workers)
    sizes = [v.numel() * v.element_size() for v in weights(result).values()]
    clients = sum(len(line["clients"]) for line in result.lines)
    assert clients == 4
    assert result.values["bytes_sent"] == 2 * clients * sum(sizes)
    assert sum(line["bytes_sent"] for line in result.lines) == result.values["bytes_sent"]
    assert result.values["core_seconds"] > 0.01

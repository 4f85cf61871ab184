"""Runs on a frozen trunk: same bits, only what is trained, and the same as without the cache."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fedgrain
from fedgrain.checked_json import read_checked_json, write_checked_json
from fedgrain.engines import ClientTrainer, ModelSpec, SequentialEngine
from fedgrain.errors import ConfigError, NetError, RunError
from fedgrain.federated.fedbdft import FedBDFT
from fedgrain.models.model_folder import load
from fedgrain.preparation.prepare import prepare
from fedgrain.preparation.trunk import with_weights_hash
from fedgrain.runs.evaluate import evaluate
from fedgrain.tensor_files import read_tensors
from fedgrain.trunks import StoredActivations, ThroughTrunk, find_weights
from fedgrain.trunks.weights import read_weights
from trunk_parts import FullCopy, TrunkNet

RUN = """
import sys, fedgrain
from fedgrain.config.config_texts import read_config
fedgrain.run(read_config(sys.argv[1]), sys.argv[2])
"""


def assert_same(folder, original) -> None:
    for name in ("best.safetensors", "model.json", "config.toml"):
        assert (folder / name).read_bytes() == (original / name).read_bytes(), name


def net_of(train: str, place: Path) -> dict[str, str]:
    """Of blocks a net of the user's own: other processes need not import timm."""
    if train == "head":
        return {}
    torch.save(TrunkNet(7).state_dict(), place / "own.pth")
    return {"net": "trunk_parts:TrunkNet", "net_weights": str(place / "own.pth")}


@pytest.mark.parametrize("train", ["head", "blocks:1"])
def test_same_bits_resumed_with_two_workers_warm_and_cold(train, on_trunk, tmp_path, monkeypatch):
    config = on_trunk(train=train, **net_of(train, tmp_path))
    fedgrain.run(config, tmp_path / "one", workers=1)

    class Stop(fedgrain.Callback):
        def on_round_end(self, line):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedgrain.run(config, tmp_path / "stopped", [Stop()], workers=1)  # the cache is warm
    fedgrain.resume(tmp_path / "stopped", trust_code=True, workers=2)
    assert_same(tmp_path / "stopped", tmp_path / "one")
    monkeypatch.setenv("FEDGRAIN_CACHE", str(tmp_path / "cold"))
    fedgrain.run(config, tmp_path / "cold run", workers=1)
    assert_same(tmp_path / "cold run", tmp_path / "one")


@pytest.mark.parametrize("train", ["head", "blocks:1"])
def test_killed_in_the_middle_of_a_round(train, on_trunk, python, tmp_path):
    config = on_trunk(train=train, **net_of(train, tmp_path))
    fedgrain.run(config, tmp_path / "one")
    (tmp_path / "config.toml").write_text(config.toml())
    kill = (
        "import os, signal, fedgrain.federated.local_training as training\n"
        "real, steps = training.batches, []\n"
        "def batches(*given):\n"
        "    for batch in real(*given):\n"
        "        steps.append(1)\n"
        "        if len(steps) == 12: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        yield batch\n"
        "training.batches = batches\n"
    )
    done = python(kill + RUN, tmp_path / "config.toml", tmp_path / "killed")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len((tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()) == 1
    fedgrain.resume(tmp_path / "killed", trust_code=True)
    assert_same(tmp_path / "killed", tmp_path / "one")


def test_only_what_is_trained_is_kept_and_nothing_of_the_trunk(on_trunk, tmp_path):
    fedgrain.run(on_trunk(hidden=16, rounds=1), tmp_path / "head")
    weights, _ = read_tensors(tmp_path / "head" / "best.safetensors")
    assert set(weights) == {
        "features.1.weight", "features.1.bias", "head.weight", "head.bias"
    }  # fmt: skip
    assert weights["features.1.weight"].shape == (16, 256)
    state, _ = read_tensors(tmp_path / "head" / "state.safetensors")
    assert {name.partition("/")[2] for name in state} == set(weights)
    fedgrain.run(on_trunk(train="blocks:1", rounds=1), tmp_path / "blocks")
    block, _ = read_tensors(tmp_path / "blocks" / "best.safetensors")
    trained = {name.split(".")[2] for name in block if "units" in name}
    assert trained == {"units"} and not any("conv_stem" in name for name in block)
    assert sum(v.numel() for v in block.values()) < 200_000 < 358_737


def test_what_is_frozen_stays_and_what_is_trained_begins_with_the_weights(on_trunk):
    config = on_trunk(train="blocks:1").complete()
    trainer = ClientTrainer(*_parts(prepare(config)))
    given, initial = read_weights(*_file_of(config)), trainer.model.initial
    (first,) = (value for name, value in initial.items() if name.endswith("units.0.conv_pw.weight"))
    last = max(name.split(".")[1] for name in given if name.startswith("blocks."))
    (source,) = (name for name, value in given.items() if torch.equal(value, first))
    assert source.startswith(f"blocks.{last}.")


def _file_of(config):
    found = find_weights(config.net, config.net_weights)
    return found.path, found.sha256


def _parts(prepared):
    return prepared.federation, prepared.spec, prepared.settings


def _through_trunk(prepared):
    """The same federation without a cache: every batch passes the trunk."""
    source = ThroughTrunk(prepared.data.images, prepared.spec.trunk)
    return replace(prepared, federation=replace(prepared.federation, source=source))


@pytest.mark.parametrize("train", ["head", "blocks:1"])
def test_the_cache_equals_the_same_run_without_it(train, on_trunk):
    cached = prepare(on_trunk(train=train, lr=0.01))
    assert isinstance(cached.federation.source, StoredActivations)
    ends = []
    for prepared in (cached, _through_trunk(cached)):
        engine = SequentialEngine(ClientTrainer(*_parts(prepared)))
        update = engine.trainer.train(1, 0, engine.model.initial, None)
        everyone = np.arange(len(prepared.data))
        ends.append((update.state, engine.validator.predict_leaves(update.state, everyone)))
    for name, value in ends[0][0].items():
        torch.testing.assert_close(value, ends[1][0][name], rtol=0, atol=1e-4)
    assert (ends[0][1] == ends[1][1]).all()


def test_fedbdft_on_a_frozen_trunk_is_fedbdft_on_full_copies(on_trunk, tmp_path):
    """Brute force: each branch a whole net, whose trunk has no gradient and stays in evaluation."""
    net = TrunkNet(7)
    torch.save(net.state_dict(), tmp_path / "own.pth")
    config = on_trunk(
        algorithm="fedbdft", supervision="projection", net="trunk_parts:TrunkNet",
        net_weights=str(tmp_path / "own.pth"), lr=0.05, branch_lr=0.05, cycles=2,
    )  # fmt: skip
    prepared = prepare(config)
    FullCopy.trunk = net
    size = prepared.spec.trunk.preprocessing.size
    whole = replace(prepared.spec.trunk, train="all", shape=(3, size, size))
    images = ThroughTrunk(prepared.data.images, whole)
    full = replace(prepared.federation, source=images)
    spec = ModelSpec("trunk_parts:FullCopy", "cond-softmax", "projection", "projection")
    trained = ClientTrainer(*_parts(prepared))
    copies = ClientTrainer(replace(full, source=_Hwc(images)), spec, prepared.settings)
    start = {**copies.model.initial, **trained.model.initial}
    ends = []
    for trainer, initial in ((trained, trained.model.initial), (copies, start)):
        engine, algorithm = SequentialEngine(trainer), FedBDFT(prepared.settings)
        state = algorithm.init(initial)
        while True:
            state = algorithm.next_stage(state, engine)
            if algorithm.finished(state, engine):
                break
            state, _ = algorithm.apply(state, engine)
        weights = algorithm.final_model(state, engine).weights
        best = {number: branch.best for number, branch in state.branches.items()}
        leaves = engine.validator.predict_leaves_by_branches(best, np.arange(len(prepared.data)))
        ends.append((weights, leaves))
    heads, full_weights = ends[0][0], ends[1][0]
    assert len(heads) < len(full_weights)
    for name, value in heads.items():
        torch.testing.assert_close(value, full_weights[name], rtol=0, atol=1e-4)
    assert (ends[0][1] == ends[1][1]).all()


class _Hwc:
    """A source whose shape is that of an image, as a net without a trunk is built for."""

    def __init__(self, source):
        self.source = source

    def __getattr__(self, name):
        return getattr(self.source, name)

    @property
    def shape(self):
        channels, height, width = self.source.shape
        return height, width, channels


def test_the_model_predicts_from_its_folder_with_the_trunk_inside(on_trunk, weights_file, tmp_path):
    other = tmp_path / "weights.safetensors"
    shutil.copy(weights_file("test_efficientnet"), other)
    result = fedgrain.run(on_trunk(net_weights=str(other), embed_trunk=True), tmp_path / "run")
    images = prepare(on_trunk()).data.of_split("test")
    before = result.predict(images.images[:5])
    other.unlink()
    again = load(tmp_path / "run")
    assert again.predict(images.images[:5]) == before
    assert evaluate(again, images)["hf"] == result.hf  # features of the cache, bit for bit
    (tmp_path / "run" / "trunk.weights").unlink()
    with pytest.raises(RunError, match=r"trunk of its model is not here: .*no such file"):
        load(tmp_path / "run")
    elsewhere = load(tmp_path / "run", net_weights=str(weights_file("test_efficientnet")))
    assert elsewhere.predict(images.images[:5]) == before


def test_other_weights_are_refused_on_resume_and_predict(on_trunk, weights_file, tmp_path):
    mine = tmp_path / "mine.safetensors"
    shutil.copy(weights_file("test_efficientnet"), mine)
    config = on_trunk(net_weights=str(mine), rounds=1)
    fedgrain.run(config, tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert stored["config"]["net_weights_sha256"] == with_weights_hash(config).net_weights_sha256
    shutil.copy(weights_file("test_resnet"), mine)
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(NetError, match="other weights of the trunk"):
        fedgrain.resume(tmp_path / "run", trust_code=True)
    with pytest.raises(RunError, match="other weights of the trunk"):
        load(tmp_path / "run")
    with pytest.raises((RunError, NetError), match=r"net_weights_sha256|do not fit"):
        fedgrain.run(config, tmp_path / "run")


def test_a_model_cannot_name_code_as_its_trunk(on_trunk, tmp_path):
    """The net of a model is checked for trust; its trunk must be that net."""
    fedgrain.run(on_trunk(rounds=1), tmp_path / "run")
    about = read_checked_json(tmp_path / "run" / "model.json")
    about["trunk"]["net"] = "trunk_parts:TrunkNet"
    write_checked_json(tmp_path / "run" / "model.json", about)
    with pytest.raises(RunError, match="its trunk is not its net"):
        load(tmp_path / "run")
    about["net"] = "trunk_parts:TrunkNet"
    write_checked_json(tmp_path / "run" / "model.json", about)
    with pytest.raises(RunError, match="code that would run on this machine"):
        load(tmp_path / "run")


def test_views_are_drawn_by_the_seed_and_change_training_alone(on_trunk):
    one = prepare(on_trunk(views=3)).federation
    again, other = prepare(on_trunk(views=3)), prepare(on_trunk(views=3, seed=48))
    plain = prepare(on_trunk()).federation.source
    source = one.source
    assert source.views == 3
    np.testing.assert_array_equal(again.federation.source.array, source.array)
    count = len(plain.array)
    np.testing.assert_array_equal(source.array[:count], plain.array)
    assert not np.array_equal(other.federation.source.array[count:], source.array[count:])
    some = one.clients[0].train.indices[:8]
    assert torch.equal(source.batch(some), plain.batch(some))
    drawn = [source.training_batch(some, np.random.default_rng(number)) for number in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    validation = prepare(on_trunk(views=3)).test
    everything = source.training_batch(validation, np.random.default_rng(0))
    assert torch.equal(everything, plain.batch(validation))  # test images have no other views


def test_all_of_it_is_trained(on_trunk, tmp_path):
    fedgrain.run(on_trunk(train="all", rounds=1, crop_and_flip=True), tmp_path / "run")
    weights, _ = read_tensors(tmp_path / "run" / "best.safetensors")
    given = read_weights(*_file_of(on_trunk()))
    before = given["conv_stem.weight"]
    after = weights["features.0.net.conv_stem.weight"]
    assert not torch.equal(before, after) and (before - after).abs().max() < 0.5
    assert load(tmp_path / "run").predict(prepare(on_trunk()).data.images[:2])


@pytest.mark.parametrize("net", ["test_resnet", "test_vit", "test_byobnet", "test_convnext"])
def test_the_last_block_of_other_architectures(net, on_trunk, weights_file):
    size = 160 if net == "test_vit" else 64
    config = on_trunk(
        net=f"timm:{net}", net_weights=str(weights_file(net)), image_size=size, train="blocks:1"
    )
    few = replace(config, dataset="own_parts:only_to_test")
    from fedgrain.preparation.trunk import trunk_of
    from fedgrain.trunks.tail import build_trained

    trunk = trunk_of(few.complete())
    tail = build_trained(
        trunk.net, trunk, 5, generator=torch.Generator().manual_seed(0), image_shape=()
    )
    whole = sum(v.numel() for v in random_state(net).values())
    assert 0 < sum(p.numel() for p in tail.parameters()) < whole


def random_state(net):
    from fedgrain.trunks.timm_models import timm_net

    return timm_net(f"timm:{net}").state_dict()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"net": "cnn-32", "net_weights": "x"}, "net_weights is for a pretrained trunk"),
        ({"net": None, "net_weights": None, "train": "head"}, "train is for a pretrained trunk"),
        ({"train": "tail"}, "train is 'tail', but must be head, blocks:N or all"),
        ({"crop_and_flip": True}, "a frozen trunk sees each only once"),
        ({"views": 4, "train": "all"}, "views are of a frozen trunk"),
    ],
)
def test_settings_without_meaning(settings, said, on_trunk):
    with pytest.raises(ConfigError, match=said):
        on_trunk(**settings)


def test_a_run_from_the_command_line(fedgrain, weights_file, tmp_path, cache):
    """timm is imported in a process of its own, where torchvision's operators may be missing."""
    done = fedgrain(
        "run", "--dataset", "own_parts:few_glyphs", "--net", "timm:test_efficientnet",
        "--net-weights", weights_file("test_efficientnet"), "--image-size", 48, "--rounds", 1,
        "--out", tmp_path / "run", "--json", "--workers", 1,
        PYTHONPATH=str(Path(__file__).parents[1]),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rounds"] == 1
    done = fedgrain(
        "run", "--net", "timm:no_such_net", "--net-weights", weights_file("test_efficientnet"),
        "--out", tmp_path / "none",
    )  # fmt: skip
    assert done.returncode == 2 and "has no model 'no_such_net'" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "none").exists()

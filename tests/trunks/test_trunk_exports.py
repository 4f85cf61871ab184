"""A model on a pretrained trunk elsewhere: the trunk is inside the file, enlarging and crop too."""

import hashlib
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fedgrain
from exported_models import check_exported, random_model
from fedgrain.exports import export
from fedgrain.exports.whole_model import WholeModel
from fedgrain.trunks import Weights, describe
from own_parts import few_glyphs

NET = "timm:test_efficientnet"


@pytest.fixture
def on(weights_file):
    """Make a model on the trunk; it enlarges images of 32 pixels to 40 and cuts out 35."""

    def made(train, head="ps-softmax", branches=False):
        path = weights_file("test_efficientnet")
        weights = Weights(path, hashlib.sha256(Path(path).read_bytes()).hexdigest(), str(path))
        spec = describe(NET, weights, train=train, hidden=None, size=35, cropped=True)
        return random_model(head, net=NET, trunk=spec, branches=branches)

    return made


@pytest.mark.parametrize(
    ("train", "branches"), [("head", False), ("blocks:1", True), ("all", False)]
)
def test_the_whole_module_is_the_model(on, train, branches) -> None:
    model = on(train, "cond-softmax", branches)
    images = few_glyphs().images[:40].copy()
    own = model.node_log_probs(images).exp()
    assert np.ptp(own[:, 1:].numpy(), axis=0).max() > 0.003  # random features are alike
    with torch.no_grad():
        found = WholeModel(model)(torch.from_numpy(images))
    assert (found - own).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("train", "head", "branches"),
    [("head", "flat-softmax", False), ("blocks:1", "cond-softmax", True)],
)
def test_onnx_and_torch_answer_as_the_model(on, train, head, branches) -> None:
    """A head on a frozen trunk; and FedBDFT with a trained block: a tail per branch."""
    check_exported(on(train, head, branches), differ=0.003)  # random features are alike


def test_a_folder_for_the_hub_holds_the_trunk(on, tmp_path) -> None:
    """As safetensors, so that nothing else is needed, wherever the trunk came from."""
    model = on("head")
    model = replace(model, trunk=replace(model.trunk, found_as="/nowhere/weights.pth"))
    told = export(model, "huggingface", tmp_path / "hub")
    assert told["largest_difference"] == 0.0
    assert {path.name for path in (tmp_path / "hub").iterdir()} == {
        "README.md", "config.json", "model.safetensors", "trunk.safetensors",
    }  # fmt: skip
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "hub").iterdir()}
    (tmp_path / "plain").touch()
    assert modes == {stat.S_IMODE((tmp_path / "plain").stat().st_mode)}  # others may read it too
    images = few_glyphs().images[:9]
    read = fedgrain.load(tmp_path / "hub")
    assert torch.equal(read.node_log_probs(images), model.node_log_probs(images))
    assert "a licence of their own" in (tmp_path / "hub" / "README.md").read_text("utf-8")

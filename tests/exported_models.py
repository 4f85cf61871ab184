"""Models with random weights: what an export must repeat needs no training."""

from __future__ import annotations

import numpy as np
import torch

from fedgrain.engines import ModelSpec
from fedgrain.exports.onnx_file import onnx_bytes, onnx_session
from fedgrain.exports.tracing import traced
from fedgrain.heads import DecoupledModel, build_head, decouple
from fedgrain.models.model_folder import ModelDescription
from fedgrain.models.trained_model import TrainedModel
from fedgrain.scoring import predict
from fedgrain.taxonomy import Taxonomy
from fedgrain.trunks import TrunkSpec, build_trained
from own_parts import few_glyphs

_EDGES = "thing/animal thing/rock animal/bird animal/cat bird/kite bird/owl cat/lion"
TREE = Taxonomy.from_edges(  # leaves at three depths, and an only child
    [tuple(edge.split("/")) for edge in _EDGES.split()]
)


def random_model(
    head: str, *, net: str = "own_parts:SmallNet", trunk: TrunkSpec | None = None, branches=False
) -> TrainedModel:
    """Return a model for the glyphs; ``branches`` as FedBDFT leaves it, each branch another."""
    data = few_glyphs()
    spec = ModelSpec(net, head, trunk=trunk)
    about = ModelDescription(spec, TREE, TREE, data.images.shape[1:], data.normalisation)
    made, draw = build_head(head, TREE), torch.Generator().manual_seed(1)
    whole = build_trained(
        net, trunk, made.num_outputs, generator=draw, image_shape=data.images.shape[1:]
    )
    if branches:
        whole = DecoupledModel(TREE, decouple(whole, made))
    state = {
        name: value + 0.3 * value.std() * torch.randn(value.shape, generator=draw)
        if value.is_floating_point() and value.ndim > 1
        else value
        for name, value in whole.state_dict().items()
    }
    return about.with_weights(state, by_branch=branches)


def check_exported(model: TrainedModel, differ: float) -> None:
    """In onnxruntime and in torch: the same node for every test image by every rule, and P to 1e-4.

    Pixels go in as they are stored. The images must ``differ`` so much that nothing hides.
    """
    images = few_glyphs().of_split("test").images.copy()
    own = model.node_log_probs(images).exp().numpy()
    assert np.ptp(own[:, 1:], axis=0).max() > differ
    program = traced(model)
    session = onnx_session(onnx_bytes(model, program), threads=1)
    tables = {
        "onnx": session.run(None, {"images": images})[0],
        "torch": program.module()(torch.from_numpy(images)).numpy(),
    }
    alone = session.run(None, {"images": images[:1]})[0]
    assert np.abs(alone - own[:1]).max() < 1e-4  # any number of images
    for name, found in tables.items():
        assert np.abs(found - own).max() < 1e-4, name
        for rule, threshold in (("leaf", None), ("threshold", 0.37), ("expected-hf", None)):
            asked = (model.taxonomy, rule, threshold)
            with np.errstate(divide="ignore"):
                theirs = predict(np.log(found), *asked)
                assert np.array_equal(theirs, predict(np.log(own), *asked)), (name, rule)

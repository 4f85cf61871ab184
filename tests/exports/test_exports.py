"""An exported model answers as ours does: every head, FedBDFT, ONNX and torch.export."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from exported_models import check_exported, random_model
from fedgrain.catalogue import EXPORTS, HEADS
from fedgrain.cli import main
from fedgrain.errors import ExportError
from fedgrain.exports.agreement import compared
from fedgrain.exports.tracing import traced
from fedgrain.taxonomy import from_json
from own_parts import few_glyphs

CALIBRATED = SimpleNamespace(temperature=1.3)  # what of a calibration probabilities need
MODELS = [*((name, False) for name in HEADS), ("cond-softmax", True)]


@pytest.mark.parametrize(("head", "branches"), MODELS)
def test_the_same_node_for_every_test_image(head, branches) -> None:
    """In onnxruntime and in torch, to 1e-4, for any number of images, by every rule."""
    model, calibration = random_model(head, branches=branches), CALIBRATED
    if branches:  # or a temperature for each depth
        depths = len(model.taxonomy.levels) - 1
        calibration = SimpleNamespace(temperature=tuple(1.3 - 0.1 * d for d in range(depths)))
    check_exported(replace(model, calibration=calibration), differ=0.05)


def test_a_file_says_all_that_a_program_needs(run_folder, tmp_path, capsys) -> None:
    """The rules, applied as the metadata words them, give the nodes that we predict."""
    import onnxruntime

    import fedgrain

    out = tmp_path / "model.onnx"
    words = ["export", str(run_folder), "--format", "onnx", "--out", str(out), "--trust-code"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["written"] == str(out) and told["bytes"] == out.stat().st_size
    assert 0 <= told["largest_difference"] < 1e-4

    session = onnxruntime.InferenceSession(str(out))
    about = session.get_modelmeta().custom_metadata_map
    images = few_glyphs().images[:20]
    assert session.get_inputs()[0].shape == ["images", 32, 32, 3]
    found = session.run(["probabilities"], {"images": images})[0]
    nodes, leaves = json.loads(about["nodes"]), json.loads(about["leaves"])
    specificity = json.loads(about["specificity"])
    tree = from_json(json.loads(about["taxonomy"]))
    assert list(tree.ids) == nodes
    model = fedgrain.load(run_folder, trust_code=True)
    by_leaf, sure = model.predict(images), model.predict(images, "threshold", 0.2)
    for row, likeliest, certain in zip(found, by_leaf, sure, strict=True):
        assert nodes[max(leaves, key=lambda node: row[node])] == likeliest.id
        enough = [node for node in range(len(nodes)) if row[node] >= 0.2]
        assert nodes[min(enough, key=lambda n: (specificity[n], -row[n], nodes[n]))] == certain.id


def test_onnxruntime_writes_nothing_at_home(run_folder, tmp_path, python) -> None:
    """Its import would leave a device id there, to report to Microsoft."""
    home, out = tmp_path / "home", tmp_path / "model.onnx"
    home.mkdir()
    script = "import sys; from fedgrain.exports import export; "
    script += "export(sys.argv[1], 'onnx', sys.argv[2], trust_code=True)"
    places = {"HOME": str(home), "XDG_CACHE_HOME": str(home)}
    done = python(script, run_folder, out, **places)
    assert done.returncode == 0 and out.exists(), done.stderr
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_torch_program_is_read_back_with_its_description(run_folder, tmp_path) -> None:
    import fedgrain
    from fedgrain.exports import export

    out = tmp_path / "model.pt2"
    export(run_folder, "torch", out, trust_code=True)
    more = {"fedgrain.json": ""}
    program = torch.export.load(out, extra_files=more).module()
    images = few_glyphs().images[:5].copy()
    own = fedgrain.load(run_folder, trust_code=True).node_log_probs(images).exp()
    assert torch.allclose(program(torch.from_numpy(images)), own, atol=1e-5)
    assert json.loads(more["fedgrain.json"])["images"]["height"] == 32


def test_another_model_is_refused(run_folder, tmp_path, monkeypatch, capsys) -> None:
    model = random_model("flat-softmax")
    own = model.node_log_probs(few_glyphs().images[:9]).exp().numpy()
    with pytest.raises(ExportError, match=r"differ from the model's own by up to 0.01"):
        compared("it", own + np.float32(0.01), own, model)
    with pytest.raises(ExportError, match=r"up to nan"):
        compared("it", np.full_like(own, np.nan), own, model)
    with pytest.raises(ExportError, match=r"\[9, 3\] instead of"):
        compared("it", own[:, :3], own, model)
    # and through the command: a program that is not the model writes nothing
    monkeypatch.setattr(
        "fedgrain.exports.torch_program.traced", lambda _: traced(random_model("flat-softmax"))
    )
    out = tmp_path / "model.pt2"
    words = ["export", str(run_folder), "--format", "torch", "--out", str(out), "--trust-code"]
    assert main(words) == 2
    assert "instead of" in (said := capsys.readouterr().err) and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_mistakes_are_one_sentence(run_folder, tmp_path, monkeypatch, capsys) -> None:
    def said(*words) -> str:
        assert main(["export", *map(str, words)]) == 2
        text = capsys.readouterr().err
        assert text.startswith("fedgrain: error: ") and text.count("\n") == 1
        return text

    assert "no finished run here" in said(tmp_path, "--format", "onnx")
    assert "--trust-code" in said(run_folder, "--format", "onnx")
    assert "a folder" in said(run_folder, "--format", "torch", "--out", tmp_path, "--trust-code")
    out = tmp_path / "a.pt"
    assert "end in .pt2" in said(run_folder, "--format", "torch", "--out", out, "--trust-code")
    monkeypatch.setattr("fedgrain.exports.tracing.find_spec", lambda name: None)
    told = said(run_folder, "--format", "onnx", "--trust-code")
    assert "pip install 'fedgrain[onnx]'" in told
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(run_folder), "--format", "png"])
    told = capsys.readouterr().err
    assert all(name in told for name in EXPORTS)
    with pytest.raises(ExportError, match="no format 'png'; choose one of onnx"):
        from fedgrain.exports import export

        export(run_folder, "png")


def test_a_net_that_fixes_the_number_of_images_is_named() -> None:
    model = random_model("flat-softmax")
    forward = model.net.forward
    object.__setattr__(
        model.net, "forward", lambda x: forward(x).reshape(len(x), model.head.num_outputs)
    )
    with pytest.raises(ExportError, match=r"own_parts:SmallNet .* x.shape\[0\] instead of len"):
        traced(model)

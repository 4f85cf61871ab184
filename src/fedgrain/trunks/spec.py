"""Which pretrained trunk, cut where, fed how: all that must agree for features to be the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedgrain.errors import NetError

_MOST = 4096  # of a side of an image, a dimension of an activation, or a hidden layer's width


@dataclass(frozen=True)
class Preprocessing:
    """How a trunk wants its images: the values of its own config."""

    size: int  # side in pixels
    interpolation: str  # bilinear or bicubic
    crop: float  # the share of a photograph's side that the trunk sees
    mean: tuple[float, ...]  # per channel, of pixel/255
    deviation: tuple[float, ...]

    @property
    def resized(self) -> int:
        """The side to which an image is resized before its centre is cut out."""
        return round(self.size / self.crop)


@dataclass(frozen=True)
class TrunkSpec:
    """A trunk by name and by the SHA-256 of its weights, and what of it is trained."""

    net: str  # timm:NAME, or the user's module:callable
    weights: str  # where they are on this machine: a file
    found_as: str  # how that file was named: a path, package:NAME, or empty for timm's hub
    sha256: str  # of that file
    train: str  # head, blocks:N or all
    hidden: int | None  # width of a hidden layer before the head
    preprocessing: Preprocessing
    shape: tuple[int, ...]  # of what the trained part takes: features, activations or an image
    probe: str  # digest of what the frozen part makes of one fixed image

    def content(self) -> dict[str, Any]:
        """Return it as JSON has it, without its place on this machine."""
        return {name: value for name, value in asdict(self).items() if name != "weights"}


def blocks_trained(train: str) -> int | None:
    """Return how many blocks are trained: 0 for head, N for blocks:N, None for all."""
    if train in ("head", "all"):
        return 0 if train == "head" else None
    if found := re.fullmatch(r"blocks:([1-9][0-9]{0,3})", train):
        return int(found[1])
    raise NetError(f"train is {train!r}, but must be head, blocks:N (N from 1) or all")


def trunk_from(content: Mapping[str, Any]) -> TrunkSpec:
    """Read what :meth:`TrunkSpec.content` wrote; anything else is a ValueError or TypeError."""
    given = dict(content)
    pre = dict(given.pop("preprocessing"))
    mean, deviation = (tuple(map(float, pre.pop(name))) for name in ("mean", "deviation"))
    found = TrunkSpec(
        weights="",
        preprocessing=Preprocessing(mean=mean, deviation=deviation, **pre),
        shape=tuple(given.pop("shape")),
        **given,
    )
    numbers = (found.preprocessing.size, *found.shape, found.hidden or 1)
    if not all(type(n) is int and 1 <= n <= _MOST for n in numbers):
        raise ValueError(f"the trunk's sizes must be whole numbers from 1 to {_MOST}")
    if not (0.1 <= found.preprocessing.crop <= 1 and len(mean) == len(deviation) == 3):
        raise ValueError("the trunk's preprocessing has a crop or a number of channels unknown")
    if not all(value > 0 for value in deviation):
        raise ValueError("the trunk's deviation has a number that is not greater than 0")
    for name in ("net", "found_as", "sha256", "train", "probe"):
        if not isinstance(getattr(found, name), str):
            raise ValueError(f"the trunk's {name} is not a text")
    return found

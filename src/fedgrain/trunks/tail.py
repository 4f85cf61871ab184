"""The trained part of a model with a pretrained trunk: the last blocks, and the head."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgrain.nets import build_net
from fedgrain.nets.build import initialise
from fedgrain.trunks.cut import above
from fedgrain.trunks.loading import load_trunk, probe_image
from fedgrain.trunks.spec import TrunkSpec, blocks_trained
from fedgrain.trunks.weights import Weights


def normalise_features(features: Tensor) -> Tensor:
    """Bring each image's features to mean 0 and deviation 1 over themselves.

    A LayerNorm without weights: this needs no statistics of any site, and trained as well as
    standardising by the mean and deviation of all training features (docs/trunks.md).
    """
    return functional.layer_norm(features, features.shape[1:])


class Tail(nn.Module):
    """What is trained: perhaps the last blocks, perhaps a hidden layer, the head.

    Without trained blocks it takes features that are normalised already.
    """

    def __init__(
        self, below: nn.Module | None, width: int, hidden: int | None, num_outputs: int
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Identity()]
        if below is not None:
            layers = [below, nn.LayerNorm(width, elementwise_affine=False)]
        if hidden:
            layers += [nn.Linear(width, hidden), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(hidden or width, num_outputs)
        self._head_only = below is None and not hidden

    @property
    def only_layer(self) -> nn.Linear | None:
        """The head, if it is all there is."""
        return self.head if self._head_only else None

    def forward(self, inputs: Tensor) -> Tensor:
        """From what the frozen part made [batch, ...] to logits [batch, outputs]."""
        logits: Tensor = self.head(self.features(inputs))
        return logits


def build_trained(
    name: str,
    trunk: TrunkSpec | None,
    num_outputs: int,
    *,
    generator: torch.Generator,
    image_shape: tuple[int, ...],
) -> nn.Module:
    """Return the net that is trained: the whole of one without a trunk, else the trunk's tail.

    New layers draw their weights from ``generator``; trained blocks begin with the trunk's.
    """
    if trunk is None:
        height, width, channels = image_shape
        shape = (height, width, channels)
        return build_net(name, num_outputs, generator=generator, image_shape=shape)
    if trunk.train == "head":
        return _new(None, trunk.shape[0], trunk.hidden, num_outputs, generator)
    loaded = load_trunk(trunk.net, Weights(Path(trunk.weights), trunk.sha256))
    image = probe_image(trunk.preprocessing.size)
    with torch.no_grad():
        width = loaded(image).shape[1]
    blocks = blocks_trained(trunk.train)
    below = loaded if blocks is None else above(loaded, blocks, image)
    return _new(below.requires_grad_(True), width, trunk.hidden, num_outputs, generator)


def _new(
    below: nn.Module | None,
    width: int,
    hidden: int | None,
    num_outputs: int,
    generator: torch.Generator,
) -> Tail:
    with torch.device("meta"):  # no weights drawn: PyTorch would take the global state
        tail = Tail(None if below is None else nn.Identity(), width, hidden, num_outputs)
    initialise(tail, generator)
    if below is not None:
        tail.features[0] = below
    return tail

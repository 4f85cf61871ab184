"""The paper's three networks, and the user's own (method, section 9).

A net is ``features`` followed by ``head``, the layer whose rows are the outputs. Its weights come
from the generator it is built with, and dropout from one set beforehand: the global random state
is neither read nor moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fedgrain.errors import NetError
from fedgrain.plugins import call_own

ImageShape = tuple[int, int, int]  # height, width, channels


class ConvNet(nn.Module):
    """Stages of conv5x5, pool2, ReLU without padding, then a linear layer (the CNN of FedAvg).

    Pooling before the ReLU is the same function as after it, and faster.
    """

    def __init__(
        self, num_outputs: int, image_shape: ImageShape, channels: tuple[int, ...]
    ) -> None:
        super().__init__()
        height, width, inputs = image_shape
        layers: list[nn.Module] = []
        for outputs in channels:
            layers += [nn.Conv2d(inputs, outputs, 5), nn.MaxPool2d(2), nn.ReLU(inplace=True)]
            height, width, inputs = (height - 4) // 2, (width - 4) // 2, outputs
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Linear(inputs * height * width, num_outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Images [batch, channels, height, width] to logits [batch, outputs]."""
        logits: Tensor = self.head(self.features(images))
        return logits


class Fire(nn.Module):
    """Squeeze to few channels, then expand by 1x1 and 3x3 side by side (SqueezeNet)."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(inputs, squeezed, 1), nn.ReLU(inplace=True))
        self.expand1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        """[batch, inputs, height, width] to [batch, 2 * expanded, height, width]."""
        squeezed = self.squeeze(images)
        return torch.cat([self.expand1(squeezed), self.expand3(squeezed)], 1).relu_()


class SqueezeNet(nn.Module):
    """The paper's SqueezeNet; its outputs pass a ReLU, so they are never negative."""

    def __init__(self, num_outputs: int, image_shape: ImageShape) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(image_shape[2], 64, 3, stride=2),
            nn.MaxPool2d(3, 2),
            nn.ReLU(inplace=True),
            Fire(64, 16, 64),
            nn.MaxPool2d(3, 2),
            Fire(128, 32, 128),
            nn.MaxPool2d(3, 2),
            Fire(256, 48, 192),
            SeededDropout(0.5),
        )
        self.head = nn.Conv2d(384, num_outputs, 5)

    def forward(self, images: Tensor) -> Tensor:
        """Images [batch, channels, height, width] to logits [batch, outputs], none below 0."""
        return self.head(self.features(images)).relu().mean((2, 3))  # type: ignore[no-any-return]


class SeededDropout(nn.Module):
    """Dropout that draws from its own generator; copies and pickles leave the generator behind.

    ``dimensions`` > 0 drops whole channels over that many trailing dimensions (Dropout2d: 2).
    """

    def __init__(self, share: float, dimensions: int = 0) -> None:
        super().__init__()
        self.share = share
        self.dimensions = dimensions
        self.generator: torch.Generator | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "generator": None}

    def extra_repr(self) -> str:
        """Say how much is dropped."""
        return f"share={self.share}"

    def forward(self, values: Tensor) -> Tensor:
        """Zero a share of the values in training, and scale up the rest."""
        if not self.training or self.share == 0.0:
            return values
        if self.generator is None:
            raise NetError(
                "dropout has no generator to draw from; call "
                "fedgrain.nets.set_dropout_generator(net, generator) before training"
            )
        if self.share == 1.0:
            return values * 0.0
        kept = values.shape[: values.dim() - self.dimensions] + (1,) * self.dimensions
        mask = torch.empty(kept, dtype=values.dtype, device=values.device)
        mask.bernoulli_(1.0 - self.share, generator=self.generator)
        return values * mask.div_(1.0 - self.share)


def set_dropout_generator(net: nn.Module, generator: torch.Generator | None) -> None:
    """Let every dropout of the net draw from ``generator``."""
    for module in net.modules():
        if isinstance(module, SeededDropout):
            module.generator = generator


_CNN_STAGES = {"cnn-32": (32, 64), "cnn-64": (32, 64, 128)}
_DEFAULT_SHAPE: dict[str, ImageShape] = {
    "cnn-32": (32, 32, 3),
    "cnn-64": (64, 64, 3),
    "squeezenet": (224, 224, 3),
}
_SMALLEST_SIDE = {"cnn-32": 16, "cnn-64": 36, "squeezenet": 95}
NETS = tuple(_DEFAULT_SHAPE)


def build_net(
    name: str,
    num_outputs: int,
    *,
    generator: torch.Generator,
    image_shape: ImageShape | None = None,
) -> nn.Module:
    """Return a net with fresh weights drawn from ``generator``.

    ``name`` is one of ``NETS`` or the user's ``module:callable``, which is called with the number
    of outputs and must return a module with ``features`` and ``head``.
    """
    if num_outputs < 1:
        raise NetError(f"a net needs at least one output, not {num_outputs}")
    if name in NETS:
        shape = image_shape or _DEFAULT_SHAPE[name]
        _check_shape(name, shape)
        with torch.device("meta"):  # no weights drawn: PyTorch would take the global state
            net = (
                SqueezeNet(num_outputs, shape)
                if name == "squeezenet"
                else ConvNet(num_outputs, shape, _CNN_STAGES[name])
            )
        net.to_empty(device="cpu")
        _initialise(net, generator)
        return net
    if ":" not in name:
        raise NetError(
            f"there is no net {name!r}; choose one of {', '.join(NETS)}, or name your own "
            "as module:callable"
        )
    own = _users_net(name, num_outputs, generator)
    if image_shape is not None:
        _try(name, own, num_outputs, image_shape)
    return own


def _try(name: str, net: nn.Module, num_outputs: int, shape: ImageShape) -> None:
    """Show a user's net one image, so that one that does not fit is told before any training."""
    height, width, channels = shape
    modes = {module: module.training for module in net.modules()}
    net.eval()
    try:
        with torch.no_grad():
            answer = net(torch.zeros(1, channels, height, width))
    except Exception as problem:
        raise NetError(
            f"net {name!r} fails on an image of {height} x {width} pixels in {channels} channels "
            f"({type(problem).__name__}: {problem})"
        ) from problem
    finally:
        for module, mode in modes.items():
            module.training = mode
    if not isinstance(answer, torch.Tensor) or answer.shape != (1, num_outputs):
        found = list(answer.shape) if isinstance(answer, torch.Tensor) else type(answer).__name__
        raise NetError(f"net {name!r} answers one image with {found} instead of {[1, num_outputs]}")


def check_pair(net_name: str, head_name: str) -> None:
    """Refuse a net and a head that have no meaning together."""
    if net_name == "squeezenet" and head_name == "cond-sigmoid":
        raise NetError(
            "cond-sigmoid has no meaning on squeezenet: its last ReLU makes every sigmoid at least "
            "0.5; choose another head or net"
        )


def _check_shape(name: str, shape: ImageShape) -> None:
    height, width, channels = shape
    smallest = _SMALLEST_SIDE[name]
    if min(height, width) < smallest or channels < 1:
        raise NetError(
            f"net {name} needs images of at least {smallest} x {smallest} pixels in one or more "
            f"channels, not {height} x {width} in {channels}; resize them or choose another net"
        )


def _initialise(net: nn.Module, generator: torch.Generator) -> None:
    """PyTorch's default for Conv2d and Linear, weights and biases in order of the modules."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5), generator=generator)
            assert module.bias is not None
            bound = 1 / math.sqrt(module.weight[0].numel())
            nn.init.uniform_(module.bias, -bound, bound, generator=generator)


@contextmanager
def global_state(seed: int) -> Iterator[None]:
    """Let what a user's net draws from torch's global state come from a seed; put it back after."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _users_net(name: str, num_outputs: int, generator: torch.Generator) -> nn.Module:
    """Build the user's net with the global state seeded from ``generator`` and put back after."""
    with global_state(int(torch.randint(2**62, (), generator=generator))):
        net = call_own(name, "net", NetError, num_outputs, called_with="the number of outputs")
    if not isinstance(net, nn.Module):
        raise NetError(f"net {name!r} made a {type(net).__name__}, not a torch.nn.Module")
    for part in ("features", "head"):
        if not isinstance(getattr(net, part, None), nn.Module):
            raise NetError(
                f"net {name!r} has no module {part!r}; split it into features and head, "
                "the layer that makes the outputs"
            )
    _seed_dropouts(net, name)
    return net


_CHANNEL_DROPOUTS = {nn.Dropout: 0, nn.Dropout1d: 1, nn.Dropout2d: 2, nn.Dropout3d: 3}


def _seed_dropouts(net: nn.Module, name: str) -> None:
    """Swap PyTorch's dropouts, which draw from the global state, for seeded ones."""
    for parent in list(net.modules()):
        for attribute, child in list(parent.named_children()):
            if type(child) in _CHANNEL_DROPOUTS:
                seeded = SeededDropout(child.p, _CHANNEL_DROPOUTS[type(child)])  # type: ignore
                setattr(parent, attribute, seeded)
            elif isinstance(child, nn.modules.dropout._DropoutNd):
                raise NetError(
                    f"net {name!r}: {type(child).__name__} would draw from the global random "
                    "state; use nn.Dropout"
                )

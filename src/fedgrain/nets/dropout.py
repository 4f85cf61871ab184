"""Dropout that draws from a generator of its own, never from torch's global random state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fedgrain.errors import NetError


class SeededDropout(nn.Module):
    """Dropout that draws from its own generator, which copies and pickles do not include.

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


@contextmanager
def global_state(seed: int) -> Iterator[None]:
    """Seed torch's global random state for a user's net, and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


_CHANNEL_DROPOUTS = {nn.Dropout: 0, nn.Dropout1d: 1, nn.Dropout2d: 2, nn.Dropout3d: 3}


def seed_dropouts(net: nn.Module, name: str) -> None:
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

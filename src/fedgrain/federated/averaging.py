"""The server's part of a round: a weighted mean, held as one running sum (McMahan et al. 2017)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedgrain.catalogue import SERVER_OPTIMIZERS
from fedgrain.errors import FederationError

State = dict[str, Tensor]


@dataclass
class RunningAverage:
    """A weighted mean of states, added in a fixed order of clients; only the sum is kept.

    The sum is in float64: the mean of one client is that client's state to the bit. Integer entries
    (a BatchNorm's counter) are not averaged: they stay the server's.
    """

    total: dict[str, Tensor] = field(default_factory=dict)
    weight: float = 0.0

    def add(self, state: State, weight: float) -> None:
        """Add one client's state with its weight, the number of samples that entered its loss."""
        for name, value in state.items():
            if value.is_floating_point():
                part = value.to(torch.float64, copy=True).mul_(weight)
                self.total[name] = self.total[name].add_(part) if name in self.total else part
        self.weight += weight

    def mean(self, server: State) -> State:
        """Return the mean in the server's types; entries that are not averaged are the server's."""
        if not self.weight > 0:
            raise FederationError("there is nothing to average: no client sent an update")
        return {
            name: (self.total[name] / self.weight).to(value.dtype) if name in self.total else value
            for name, value in server.items()
        }

    def step(
        self,
        server: State,
        memory: State,
        settings: ServerSettings,
        parameters: AbstractSet[str],
    ) -> tuple[State, State]:
        """Return the server's weights after the round, and the memory for the next."""
        aim, memory = self.aim(server, self.mean(server), memory)
        return server_step(server, aim, memory, settings, parameters)

    def aim(self, server: State, mean: State, memory: State) -> tuple[State, State]:
        """Return the target of the server's step, and its memory: here the mean, and no memory.

        Override this to aggregate updates in another way.
        """
        return mean, memory


def moved_towards(mean: State, newest: State, share: float) -> State:
    """Return a running mean moved by a share towards the newest weights; first, the newest."""
    if not mean or share == 1:
        return newest
    return {
        name: mean[name].lerp(value, share) if value.is_floating_point() else value
        for name, value in newest.items()
    }


@dataclass(frozen=True)
class ServerSettings:
    """How the server moves to the mean: all the way (FedAvg), or by an optimiser's step.

    ``sgd`` with momentum is FedAvgM, ``adam`` FedAdam, ``adagrad`` FedAdagrad (Reddi et al. 2021):
    the difference between the server's weights and the mean is used as the gradient. The
    constants of the last two are those of that paper's experiments.
    """

    optimizer: str = "none"
    lr: float = 1.0
    momentum: float = 0.0


def server_step(
    server: State,
    mean: State,
    memory: State,
    settings: ServerSettings,
    parameters: AbstractSet[str],
) -> tuple[State, State]:
    """Return the server's new weights and the optimiser's memory for the next round.

    Only the named ``parameters`` are stepped. Buffers (a BatchNorm's running variance) are the mean
    itself: an optimiser's step could make a variance negative.
    """
    if settings.optimizer == "none":
        return mean, memory
    weights = {
        name: torch.nn.Parameter(value.clone())
        for name, value in server.items()
        if name in parameters
    }
    optimizer = _optimizer(list(weights.values()), settings)
    for name, weight in weights.items():
        weight.grad = server[name] - mean[name]
        start = f"{name}|"
        kept = {
            key.removeprefix(start): value.clone()
            for key, value in memory.items()
            if key.startswith(start)
        }
        if kept:
            optimizer.state[weight] = kept
    optimizer.step()
    remembered = {
        f"{name}|{key}": value.detach().clone()
        for name, weight in weights.items()
        for key, value in optimizer.state[weight].items()
        if isinstance(value, Tensor)
    }
    return {**mean, **{name: weight.detach() for name, weight in weights.items()}}, remembered


def _optimizer(
    weights: list[torch.nn.Parameter], settings: ServerSettings
) -> torch.optim.Optimizer:
    if settings.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=settings.lr, momentum=settings.momentum)
    if settings.optimizer == "adam":
        return torch.optim.Adam(weights, lr=settings.lr, betas=(0.9, 0.99), eps=1e-3)
    if settings.optimizer == "adagrad":
        return torch.optim.Adagrad(weights, lr=settings.lr, eps=1e-3)
    raise FederationError(
        f"there is no server optimiser {settings.optimizer!r}; "
        f"choose one of {', '.join(SERVER_OPTIMIZERS)}"
    )

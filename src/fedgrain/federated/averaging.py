"""The server's part of a round: a weighted mean, held as one running sum (McMahan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedgrain.errors import FederationError

State = dict[str, Tensor]


@dataclass
class RunningAverage:
    """Add states in a fixed order of clients; nothing but the sum is kept.

    The sum is in float64: the mean of one client is that client's state to the bit. Integer entries
    (a BatchNorm's counter) are not averaged: they stay the server's.
    """

    total: dict[str, Tensor] = field(default_factory=dict)
    weight: float = 0.0

    def add(self, state: State, weight: float) -> None:
        """Add one client's state with its weight, the number of samples that entered its loss."""
        for name, value in state.items():
            if value.is_floating_point():
                part = value.double() * weight
                self.total[name] = self.total[name].add_(part) if name in self.total else part
        self.weight += weight

    def mean(self, server: State) -> State:
        """Return the mean, in the server's types, with what is not averaged taken from it."""
        if not self.weight > 0:
            raise FederationError("there is nothing to average: no client sent an update")
        return {
            name: (self.total[name] / self.weight).to(value.dtype) if name in self.total else value
            for name, value in server.items()
        }


def weighted_mean(states: list[tuple[State, float]], server: State) -> State:
    """Return the mean of states given with their weights."""
    average = RunningAverage()
    for state, weight in states:
        average.add(state, weight)
    return average.mean(server)


SERVER_OPTIMIZERS = ("none", "sgd", "adam", "adagrad")


@dataclass(frozen=True)
class ServerSettings:
    """How the server moves to the mean: all the way (FedAvg), or by an optimiser's step.

    ``sgd`` with momentum is FedAvgM, ``adam`` FedAdam, ``adagrad`` FedAdagrad (Reddi et al. 2021):
    the difference between the server's weights and the mean is taken for the gradient.
    """

    optimizer: str = "none"
    lr: float = 1.0
    momentum: float = 0.0


def server_step(
    server: State, mean: State, memory: State, settings: ServerSettings
) -> tuple[State, State]:
    """Return the server's new weights and the optimiser's memory for the next round."""
    if settings.optimizer == "none":
        return mean, memory
    names = [name for name, value in server.items() if value.is_floating_point()]
    weights = [torch.nn.Parameter(server[name].clone()) for name in names]
    optimizer = _optimizer(weights, settings)
    for number, (name, weight) in enumerate(zip(names, weights, strict=True)):
        weight.grad = server[name] - mean[name]
        kept = {
            key.removeprefix(f"{name}|"): value.clone()
            for key, value in memory.items()
            if key.startswith(f"{name}|")
        }
        if kept:
            optimizer.state[weights[number]] = dict(kept)
    optimizer.step()
    remembered = {
        f"{name}|{key}": value.detach().clone()
        for name, weight in zip(names, weights, strict=True)
        for key, value in optimizer.state[weight].items()
        if isinstance(value, Tensor)
    }
    moved = dict(mean)
    moved.update({name: w.detach() for name, w in zip(names, weights, strict=True)})
    return moved, remembered


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

"""Other ways to aggregate updates: Flower's own strategies, by name.

The round is ours; a strategy only aggregates. FedAvgM, FedAdam and FedYogi step the weights, and
what is not trained (a BatchNorm's statistics) is averaged, since an optimiser's step could make a
variance negative. FedMedian, FedTrimmedAvg and Krum tolerate bad updates, so they aggregate every
float. A strategy's memory is stored with our state, so a resumed run continues with it.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import strategy as flower

from fedgrain.config.config import Config
from fedgrain.errors import DeploymentError, FederationError
from fedgrain.federated.averaging import RunningAverage, State
from fedgrain.messages.wire import record_of, state_of

OURS = "ours"
STEPPING = ("FedAvgM", "FedAdam", "FedYogi")
ROBUST = ("FedMedian", "FedTrimmedAvg", "Krum")


def average_by(
    name: str, config: Config, parameters: AbstractSet[str]
) -> Callable[[], RunningAverage]:
    """Return a factory of a round's average: ours, or a strategy that steps ``parameters``.

    FedAvgM takes the config's ``server_lr`` and ``server_momentum``; the others have Flower's
    defaults.
    """
    if name == OURS:
        return RunningAverage
    if name not in (*STEPPING, *ROBUST):
        known = ", ".join((OURS, *STEPPING, *ROBUST))
        raise DeploymentError(f"there is no strategy {name!r}; choose one of {known}")
    if config.server_optimizer != "none":
        raise DeploymentError(
            f"strategy {name} and server_optimizer {config.server_optimizer} both step the server; "
            "choose one"
        )
    options: dict[str, float] = {}
    if name == "FedAvgM":
        options = {
            "server_learning_rate": config.server_lr,
            "server_momentum": config.server_momentum,
        }
    return partial(StrategyAverage, name=name, parameters=parameters, options=options)


@dataclass
class StrategyAverage(RunningAverage):
    """Collects the updates of a round and lets one of Flower's strategies aggregate them."""

    name: str = "FedMedian"
    parameters: AbstractSet[str] = frozenset()
    options: dict[str, float] = field(default_factory=dict)
    updates: list[tuple[State, float]] = field(default_factory=list)

    def add(self, state: State, weight: float) -> None:
        """Keep one client's state with its weight."""
        super().add(state, weight)
        self.updates.append((state, weight))

    def aim(self, server: State, mean: State, memory: State) -> tuple[State, State]:
        """Return the strategy's weights, and its memory."""
        stepped = {
            name: value
            for name, value in server.items()
            if value.is_floating_point() and (name in self.parameters or self.name in ROBUST)
        }
        strategy: Any = getattr(flower, self.name)(**self.options)
        number = int(memory.get("round", torch.tensor(0))) + 1
        _remind(strategy, stepped, memory)
        replies = [_reply(state, stepped, weight) for state, weight in self.updates]
        arrays, _ = strategy.aggregate_train(number, replies)
        if not isinstance(arrays, ArrayRecord):
            raise FederationError(f"{self.name} cannot aggregate {len(replies)} updates")
        found = {name: v.to(server[name].dtype) for name, v in state_of(arrays).items()}
        remembered = _memory(strategy, list(stepped)) if self.name in STEPPING else {}
        if remembered:
            remembered["round"] = torch.tensor(number)
        return {**mean, **found}, remembered


def _reply(state: State, stepped: State, weight: float) -> Message:
    content = RecordDict({
        "arrays": record_of({name: state[name] for name in stepped}),
        "metrics": MetricRecord({"num-examples": float(weight)}),
    })  # fmt: skip
    return Message(content, dst_node_id=1, message_type="train")


def _remind(strategy: Any, server: State, memory: State) -> None:
    """Set the server's weights and the memory in the fields of a stepping strategy."""
    if isinstance(strategy, flower.FedAvgM):
        strategy.current_arrays = record_of(server)
        if memory:
            strategy.momentum_vector = [memory[f"momentum|{name}"].numpy() for name in server]
    elif hasattr(strategy, "m_t"):
        strategy.current_arrays = {name: value.numpy().copy() for name, value in server.items()}
        if memory:
            strategy.m_t = {name: memory[f"m|{name}"].numpy() for name in server}
            strategy.v_t = {name: memory[f"v|{name}"].numpy() for name in server}


def _memory(strategy: Any, names: list[str]) -> State:
    """Return a stepping strategy's memory as tensors."""
    if isinstance(strategy, flower.FedAvgM):
        vectors = strategy.momentum_vector or []
        return {f"momentum|{n}": _tensor(v) for n, v in zip(names, vectors, strict=bool(vectors))}
    kept = {f"m|{name}": _tensor(strategy.m_t[name]) for name in names}
    return {**kept, **{f"v|{name}": _tensor(strategy.v_t[name]) for name in names}}


def _tensor(value: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(value))

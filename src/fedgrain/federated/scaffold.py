"""SCAFFOLD (Karimireddy et al. 2020): FedAvg whose clients correct their own drift.

Client i has a control variate c_i, its own mean gradient as last seen, and the server has their
mean c. A client adds c - c_i to every gradient, so that it steps as if it saw everyone's data.
After K steps with rate lr from x to y its new variate is c_i - c + (x - y) / (K lr), the paper's
option II. The server works this out from the update it gets anyway, so clients store nothing and no
more is sent back than in FedAvg. Updates are averaged by samples; the paper takes the plain mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from fedgrain.errors import ConfigError, FederationError
from fedgrain.federated.algorithm import Encoded, FederatedAlgorithm, FinalModel, encoded
from fedgrain.federated.averaging import State
from fedgrain.federated.engine import Engine, Task, gather
from fedgrain.federated.faults import Fault
from fedgrain.federated.fedavg import FedAvg, FedAvgState
from fedgrain.federated.local_training import Update
from fedgrain.federated.round_report import RoundReport
from fedgrain.federated.settings import TrainingSettings

Outcome = tuple[Task, Update | Fault]


@dataclass(frozen=True, eq=False)
class ScaffoldState:
    """FedAvg's state and the control variates; one that is missing is zero."""

    fedavg: FedAvgState
    control: State  # c
    of_clients: Mapping[int, State]  # c_i


class Scaffold(FederatedAlgorithm[ScaffoldState]):
    """FedAvg with control variates."""

    name = "scaffold"

    def __init__(self, settings: TrainingSettings) -> None:
        super().__init__(settings)
        if settings.local.momentum:
            raise ConfigError(
                "scaffold derives a client's mean gradient from its steps, which momentum hides; "
                "set momentum to 0"
            )
        if not settings.local_in(settings.rounds).lr:  # no schedule raises it again
            raise ConfigError(
                "scaffold divides by the learning rate, which is 0 at first or in the last round; "
                "set lr and step_factor above 0"
            )
        self._fedavg = FedAvg(settings)

    def init(self, weights: State) -> ScaffoldState:
        """Start from given weights, with all variates zero."""
        return ScaffoldState(self._fedavg.init(weights), {}, {})

    def finished(self, state: ScaffoldState, engine: Engine) -> bool:
        """Return whether patience or the rounds have run out."""
        return self._fedavg.finished(state.fedavg, engine)

    def next_round(self, state: ScaffoldState) -> tuple[str, int]:
        """Return the number of the next round."""
        return self.name, state.fedavg.round + 1

    def apply(self, state: ScaffoldState, engine: Engine) -> tuple[ScaffoldState, RoundReport]:
        """Run one round of FedAvg in which every client corrects its gradients."""
        number, weights = state.fedavg.round + 1, state.fedavg.weights
        tasks = [
            Task(number, client, weights, correction=self._correction(state, client))
            for client in self._fedavg.clients(number, engine)
        ]
        changes: dict[int, State] = {}
        outcomes = self._watched(engine.train(tasks), state.control, changes, engine.parameters)
        fedavg, report = self._fedavg.averaged(state.fedavg, gather(outcomes, engine), engine)
        control, of_clients = dict(state.control), dict(state.of_clients)
        for client in sorted(changes):
            of_clients[client] = _sum(of_clients.get(client, {}), changes[client])
            control = _sum(control, changes[client], 1 / len(engine.client_names))
        return ScaffoldState(fedavg, control, of_clients), replace(report, stage=self.name)

    def _correction(self, state: ScaffoldState, client: int) -> State:
        """Return c - c_i; empty (zero) while there are no variates."""
        return _sum(state.control, state.of_clients.get(client, {}), -1.0)

    def _watched(
        self,
        outcomes: Iterable[Outcome],
        control: State,
        changes: dict[int, State],
        parameters: frozenset[str],
    ) -> Iterator[Outcome]:
        """Yield outcomes and record the change of each client's variate: (x - y) / (K lr) - c."""
        for task, outcome in outcomes:
            if isinstance(outcome, Update):
                if not outcome.steps:
                    raise FederationError("scaffold needs the number of steps of every update")
                scale = outcome.steps * self.settings.local_in(task.round).lr
                moved = {
                    n: (task.weights[n] - outcome.state[n]) / scale for n in sorted(parameters)
                }
                changes[task.client] = _sum(moved, control, -1.0)
            yield task, outcome

    def encode(self, state: ScaffoldState) -> Encoded:
        """Return the state as it is stored."""
        inner = self._fedavg.encode(state.fedavg)
        variates = {"control": state.control}
        variates |= {f"control of {client}": own for client, own in state.of_clients.items()}
        own = encoded(variates, {"stage": self.name, "controlled": list(state.of_clients)})
        return Encoded({**inner.tensors, **own.tensors}, {**inner.about, **own.about})

    def decode(self, stored: Encoded) -> ScaffoldState:
        """Return the state that was stored."""
        of_clients = {n: stored.part(f"control of {n}") for n in stored.about["controlled"]}
        return ScaffoldState(self._fedavg.decode(stored), stored.part("control"), of_clients)

    def final_model(self, state: ScaffoldState, engine: Engine) -> FinalModel:
        """Return the best weights."""
        return self._fedavg.final_model(state.fedavg, engine)


def _sum(one: State, other: State, factor: float = 1.0) -> State:
    """Return one + factor * other; an empty state counts as zero."""
    if not one:
        return {name: value * factor for name, value in other.items()}
    return {n: v.add(other[n], alpha=factor) if other else v for n, v in one.items()}

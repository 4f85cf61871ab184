"""FedAvg (McMahan et al. 2017) for every head: init and one round.

A round: sample clients, let each train from the global weights on its own labels, average the
results weighted by the samples that entered each client's loss, validate, keep the best.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedgrain.errors import FederationError
from fedgrain.federated.averaging import RunningAverage, State, server_step
from fedgrain.federated.early_stopping import EarlyStopping
from fedgrain.federated.engine import Engine, Fault, Task
from fedgrain.federated.plan import Plan, Report, joining, sample


@dataclass(frozen=True, eq=False)
class FedAvgState:
    """All there is to know between two rounds."""

    round: int
    weights: State
    memory: State  # of the server's optimiser
    best: State
    stopping: EarlyStopping


def init(weights: State, plan: Plan) -> FedAvgState:
    """Start from given weights."""
    return FedAvgState(0, weights, {}, weights, plan.stopping)


def finished(state: FedAvgState, plan: Plan) -> bool:
    """Whether patience or the rounds have run out."""
    return state.stopping.stopped or state.round >= plan.rounds


def apply(state: FedAvgState, plan: Plan, engine: Engine) -> tuple[FedAvgState, Report]:
    """Run one round."""
    number = state.round + 1
    eligible = [client for client in range(engine.clients) if engine.samples(client) > 0]
    if not eligible:
        raise FederationError(
            "no client has a sample that enters the loss; choose another head or supervision, "
            "or a lower alpha"
        )
    count = joining(engine.clients, plan.join_ratio)
    chosen = sample(eligible, count, plan.seed, "clients of a round", number)
    average, told, faults = RunningAverage(), [], []
    for task, outcome in engine.train([Task(number, client, state.weights) for client in chosen]):
        name = engine.client_name(task.client)
        if isinstance(outcome, Fault):
            faults.append({"client": name, "fault": outcome.reason})
            continue
        average.add(outcome.state, outcome.samples)
        told.append({"client": name, "samples": outcome.samples, "loss": outcome.loss})
    if len(told) < plan.min_clients:
        raise FederationError(
            f"round {number}: {len(told)} of {len(chosen)} clients sent a usable update, "
            f"{plan.min_clients} are needed; {faults[0]['client']}: {faults[0]['fault']}"
        )
    mean = average.mean(state.weights)
    weights, memory = server_step(state.weights, mean, state.memory, plan.server)
    score = engine.validate(weights)
    stopping = state.stopping.after(score)
    best = weights if stopping.improved else state.best
    report = Report("fedavg", number, score, told, faults)
    return FedAvgState(number, weights, memory, best, stopping), report

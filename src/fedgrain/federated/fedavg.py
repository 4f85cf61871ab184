"""FedAvg (McMahan et al. 2017) for every head: init and one round.

A round: sample clients that have data, let each train from the global weights on its own labels,
average the results weighted by the samples that entered each client's loss, validate, keep the
best.

Where clients know different leaves, each round's weights lean to those its clients knew. With
``average_rounds`` n the weights that are validated and kept are a running mean over rounds: of all
rounds up to the n-th, then with weight 1/n for the newest. Training goes on from the plain weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedgrain.errors import DivergedError, FederationError
from fedgrain.federated.averaging import State, moved_towards
from fedgrain.federated.early_stopping import EarlyStopping
from fedgrain.federated.engine import Engine, Gathered, Task, gather
from fedgrain.federated.faults import diverged, stop_if_code_fails
from fedgrain.federated.plan import Plan, Report, joining, sample


@dataclass(frozen=True, eq=False)
class FedAvgState:
    """All there is to know between two rounds."""

    round: int
    weights: State
    memory: State  # of the server's optimiser
    mean: State  # over rounds; empty where each round stands for itself
    best: State
    stopping: EarlyStopping


def init(weights: State, plan: Plan) -> FedAvgState:
    """Start from given weights."""
    return FedAvgState(0, weights, {}, {}, weights, plan.stopping)


def finished(state: FedAvgState, plan: Plan) -> bool:
    """Whether patience or the rounds have run out."""
    return state.stopping.stopped or state.round >= plan.rounds


def apply(state: FedAvgState, plan: Plan, engine: Engine) -> tuple[FedAvgState, Report]:
    """Run one round."""
    number, clients = state.round + 1, len(engine.client_names)
    eligible = [client for client in range(clients) if engine.samples(client) > 0]
    count = joining(clients, plan.join_ratio)
    chosen = sample(eligible, count, plan.seed, "clients of a round", number)
    chosen.sort(key=engine.samples, reverse=True)  # longest first: no core waits at the end
    tasks = [Task(number, client, state.weights) for client in chosen]
    gathered = gather(engine.train(tasks), engine)
    _check(number, gathered, len(eligible), plan)
    weights, memory = gathered.average.step(
        state.weights, state.memory, plan.server, engine.parameters
    )
    mean = {}
    if plan.average_rounds > 1:
        mean = moved_towards(state.mean, weights, 1 / min(number, plan.average_rounds))
    score = engine.validate(mean or weights)
    stopping = state.stopping if score is None else state.stopping.after(score)
    best = (mean or weights) if score is None or stopping.improved else state.best
    report = Report("fedavg", number, score, gathered.clients, gathered.faults)
    return FedAvgState(number, weights, memory, mean, best, stopping), report


def _check(number: int, gathered: Gathered, eligible: int, plan: Plan) -> None:
    """Refuse a round in which too few clients sent an update."""
    if not eligible:
        raise FederationError(
            "no client has a sample that enters the loss; choose another head or supervision, "
            "or a lower alpha"
        )
    if len(gathered.clients) >= plan.min_clients:
        return
    if not gathered.clients:
        stop_if_code_fails(f"round {number}", gathered.faults)
    text = f"round {number}: {len(gathered.clients)} clients sent an update"
    if gathered.faults:
        first = gathered.faults[0]
        raise (DivergedError if diverged(gathered.faults) else FederationError)(
            f"{text}, min_clients is {plan.min_clients}, and {first['client']} failed with: "
            f"{first['fault']} (if numbers are not finite or too large, try a lower learning rate)"
        )
    raise FederationError(f"{text}, but min_clients is {plan.min_clients}; lower it")

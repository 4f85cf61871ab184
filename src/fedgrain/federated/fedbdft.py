"""FedBDFT (the paper's Algorithm 3; method, section 10): init and one cycle.

A trained cond-softmax is decoupled into one net per branch. A cycle gives every branch that still
improves one round: sample clients with enough data below it, let each train that branch alone,
average weighted by |D_e|, validate on the samples below it, keep the best. Branches do not touch
each other, so their order does not matter and an engine may train them all at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

from fedgrain.federated.averaging import RunningAverage, State, server_step
from fedgrain.federated.early_stopping import EarlyStopping
from fedgrain.federated.engine import Engine, Fault, Task
from fedgrain.federated.plan import Plan, Report, joining, sample


@dataclass(frozen=True, eq=False)
class BranchState:
    """One branch between two cycles."""

    weights: State
    memory: State  # of the server's optimiser
    best: State
    stopping: EarlyStopping
    rounds: int = 0  # in which it was trained


@dataclass(frozen=True, eq=False)
class FedBdftState:
    """All there is to know between two cycles."""

    cycle: int
    branches: dict[int, BranchState]


def init(decoupled: dict[int, State], plan: Plan, engine: Engine) -> FedBdftState:
    """Start from the decoupled weights, whose own accuracy is the first to beat."""
    branches = {}
    for branch, weights in decoupled.items():
        accuracy = engine.validate_branch(branch, weights)
        stopping = plan.stopping if accuracy is None else plan.stopping.after(accuracy)
        branches[branch] = BranchState(weights, {}, weights, stopping)
    return FedBdftState(0, branches)


def eligible(branch: int, plan: Plan, engine: Engine) -> list[int]:
    """Return the clients with at least gamma samples below a branch that has two or more sides."""
    if engine.children_with_data(branch) < 2:
        return []
    clients = range(engine.clients)
    return [c for c in clients if engine.samples(c, branch) >= max(1, plan.min_branch_samples)]


def finished(state: FedBdftState, plan: Plan, engine: Engine) -> bool:
    """Whether the cycles have run out, or no branch has both patience and clients left."""
    if state.cycle >= plan.cycles:
        return True
    return not any(
        not branch.stopping.stopped and eligible(number, plan, engine)
        for number, branch in state.branches.items()
    )


def apply(state: FedBdftState, plan: Plan, engine: Engine) -> tuple[FedBdftState, Report]:
    """Run one cycle over all branches that still improve."""
    number, count = state.cycle + 1, joining(engine.clients, plan.join_ratio)
    tasks = [
        Task(number, client, branch.weights, e)
        for e, branch in state.branches.items()
        if not branch.stopping.stopped
        for client in sample(
            eligible(e, plan, engine), count, plan.seed, "clients of a branch", number, e
        )
    ]
    branches, told, faults = dict(state.branches), [], []
    for e, outcomes in groupby(engine.train(tasks), key=lambda pair: pair[0].branch):
        assert e is not None
        average, losses = RunningAverage(), []
        for task, outcome in outcomes:
            if isinstance(outcome, Fault):
                name = engine.client_name(task.client)
                faults.append({"client": name, "branch": e, "fault": outcome.reason})
                continue
            average.add(outcome.state, outcome.samples)
            losses.append({"client": engine.client_name(task.client), "samples": outcome.samples})
        if len(losses) < plan.min_clients:
            continue  # the branch keeps its weights until the next cycle
        branches[e] = _averaged(e, branches[e], average, plan, engine)
        accuracy = branches[e].stopping
        told.append(
            {"branch": e, "accuracy": accuracy.last, "best": accuracy.best, "clients": losses}
        )
    score = engine.validate_branches({e: branch.best for e, branch in branches.items()})
    return FedBdftState(number, branches), Report("fedbdft", number, score, [], faults, told)


def _averaged(
    e: int, branch: BranchState, average: RunningAverage, plan: Plan, engine: Engine
) -> BranchState:
    mean = average.mean(branch.weights)
    weights, memory = server_step(branch.weights, mean, branch.memory, plan.server)
    trained = replace(branch, weights=weights, memory=memory, rounds=branch.rounds + 1)
    accuracy = engine.validate_branch(e, weights)
    if accuracy is None:  # nothing to judge by: keep training to the last cycle
        return replace(trained, best=weights)
    stopping = branch.stopping.after(accuracy)
    return replace(trained, stopping=stopping, best=weights if stopping.improved else branch.best)

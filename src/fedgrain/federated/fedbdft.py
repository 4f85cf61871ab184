"""FedBDFT (the paper's Algorithm 3; method, section 10): init and one cycle.

A trained cond-softmax is decoupled into one net per branch. A cycle gives every branch that still
improves one round: sample clients with enough data below it, let each train that branch alone,
average weighted by |D_e|, validate on the samples below it, keep the best. Branches do not touch
each other, so their order does not matter and an engine may train them all at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from fedgrain.errors import DivergedError
from fedgrain.federated.averaging import State
from fedgrain.federated.early_stopping import EarlyStopping
from fedgrain.federated.engine import Engine, Gathered, Task, gather
from fedgrain.federated.faults import diverged, stop_if_code_fails
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
    accuracies = engine.branch_accuracies(decoupled)
    for branch, weights in decoupled.items():
        accuracy = accuracies[branch]
        stopping = plan.stopping if accuracy is None else plan.stopping.after(accuracy)
        branches[branch] = BranchState(weights, {}, weights, stopping)
    return FedBdftState(0, branches)


def eligible(branch: int, plan: Plan, engine: Engine) -> list[int]:
    """Return the clients with at least gamma samples of a branch.

    None, and the branch stays as decoupled, if fewer than two of its children have data anywhere or
    fewer clients are left than a round needs.
    """
    if engine.children_with_data(branch) < 2:
        return []
    clients = range(len(engine.client_names))
    enough = [c for c in clients if engine.samples(c, branch) >= plan.min_branch_samples]
    return enough if len(enough) >= plan.min_clients else []


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
    number, count = state.cycle + 1, joining(len(engine.client_names), plan.join_ratio)
    chosen = {
        e: sample(eligible(e, plan, engine), count, plan.seed, "clients of a branch", number, e)
        for e, branch in state.branches.items()
        if not branch.stopping.stopped
    }
    tasks = [
        Task(number, client, state.branches[e].weights, e)
        for e in longest_first(chosen, engine)
        for client in chosen[e]
    ]
    averaged, clients, faults, lost = {}, {}, list[dict[str, Any]](), list[int]()
    updates = 0
    for e, outcomes in groupby(engine.train(tasks), key=_branch_of):
        gathered, name = gather(outcomes, engine), engine.branch_name(e)
        faults += [{**fault, "branch": name} for fault in gathered.faults]
        updates += len(gathered.clients)
        if len(gathered.clients) < plan.min_clients:
            lost.append(e)  # the branch keeps its weights until the next cycle
            continue
        averaged[e] = _averaged(state.branches[e], gathered, plan, engine)
        clients[e] = gathered.clients
    never = not averaged and not any(branch.rounds for branch in state.branches.values())
    if not updates and (never or len({fault["client"] for fault in faults}) > 1):
        stop_if_code_fails(f"cycle {number}", faults)
    if never and diverged(faults):
        raise DivergedError(
            f"cycle {number}: no branch has been trained, and {faults[0]['client']} failed with: "
            f"{faults[0]['fault']}; try a lower branch_lr"
        )
    accuracies = engine.branch_accuracies({e: branch.weights for e, branch in averaged.items()})
    judged = {e: _judged(averaged[e], accuracies[e]) for e in averaged}
    waiting = {e: _waiting(state.branches[e]) for e in lost}
    branches = {**state.branches, **judged, **waiting}
    score = engine.validate_branches({e: branch.best for e, branch in branches.items()})
    in_order = [
        {"branch": engine.branch_name(e), "accuracy": accuracies[e], "clients": clients[e]}
        for e in sorted(averaged)
    ]
    return FedBdftState(number, branches), Report("fedbdft", number, score, [], faults, in_order)


def longest_first(chosen: dict[int, list[int]], engine: Engine) -> list[int]:
    """Order branches by their largest client, so that no core waits for a long one at the end."""
    return sorted(
        chosen, key=lambda e: (-max((engine.samples(c, e) for c in chosen[e]), default=0), e)
    )


def _averaged(branch: BranchState, gathered: Gathered, plan: Plan, engine: Engine) -> BranchState:
    """Return the branch with the weights of its round, not yet judged."""
    weights, memory = gathered.average.step(
        branch.weights, branch.memory, plan.server, engine.parameters
    )
    return replace(branch, weights=weights, memory=memory, rounds=branch.rounds + 1)


def _judged(branch: BranchState, accuracy: float | None) -> BranchState:
    """Return the branch with its new weights as the best, if they are."""
    if accuracy is None:  # nothing to judge by: keep training to the last cycle
        return replace(branch, best=branch.weights)
    stopping = branch.stopping.after(accuracy)
    best = branch.weights if stopping.improved else branch.best
    return replace(branch, stopping=stopping, best=best)


def _waiting(branch: BranchState) -> BranchState:
    """Return a branch that lost its round: it runs out of patience as one that got no better."""
    return replace(branch, stopping=branch.stopping.without_value())


def _branch_of(outcome: tuple[Task, object]) -> int:
    branch = outcome[0].branch
    if branch is None:
        raise TypeError("a task of a cycle has no branch")
    return branch

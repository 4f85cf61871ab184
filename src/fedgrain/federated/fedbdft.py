"""FedBDFT (the paper's Algorithm 3; method, section 10).

FedAvg trains a cond-softmax; then it is decoupled into one net per branch. A cycle gives every
branch that still improves one round: sample clients with enough data below it, let each train that
branch alone, average weighted by |D_e|, validate on the samples below it, keep the best. Branches
do not touch each other, so their order does not matter and an engine may train them all at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from fedgrain.errors import DivergedError
from fedgrain.federated.algorithm import Encoded, FederatedAlgorithm, FinalModel, encoded
from fedgrain.federated.averaging import State
from fedgrain.federated.early_stopping import EarlyStopping
from fedgrain.federated.engine import Engine, Gathered, Task, gather
from fedgrain.federated.faults import diverged, stop_if_code_fails
from fedgrain.federated.fedavg import FedAvg, FedAvgState
from fedgrain.federated.round_report import RoundReport
from fedgrain.federated.sampling import joining, sample
from fedgrain.federated.settings import TrainingSettings

STORED = ("weights", "memory", "best")


@dataclass(frozen=True, eq=False)
class BranchState:
    """One branch between two cycles."""

    weights: State
    memory: State  # of the server's optimiser
    best: State
    stopping: EarlyStopping
    rounds: int = 0  # in which it was trained


@dataclass(frozen=True, eq=False)
class BranchesState:
    """The state between two cycles."""

    cycle: int
    branches: Mapping[int, BranchState]
    first_stage_rounds: int = 0


_FedBdftState = FedAvgState | BranchesState  # the first stage, then the branches


class FedBDFT(FederatedAlgorithm[_FedBdftState]):
    """FedAvg on cond-softmax, then every branch of the tree on its own."""

    name = "fedbdft"

    def __init__(self, settings: TrainingSettings) -> None:
        super().__init__(settings)
        self._first = FedAvg(settings)

    def init(self, weights: State) -> _FedBdftState:
        """Start the first stage from given weights."""
        return self._first.init(weights)

    def next_stage(self, state: _FedBdftState, engine: Engine) -> _FedBdftState:
        """Decouple when the first stage has ended; each branch must then improve its accuracy."""
        if isinstance(state, BranchesState) or not self._first.finished(state, engine):
            return state
        return self.decoupled(engine.decouple(state.best), engine, state.round)

    def decoupled(
        self, weights: Mapping[int, State], engine: Engine, rounds: int = 0
    ) -> BranchesState:
        """Return the first state of the branches."""
        accuracies, branches = engine.branch_accuracies(weights), {}
        for branch, own in weights.items():
            accuracy, stopping = accuracies[branch], self.settings.stopping
            stopping = stopping if accuracy is None else stopping.after(accuracy)
            branches[branch] = BranchState(own, {}, own, stopping)
        return BranchesState(0, branches, rounds)

    def finished(self, state: _FedBdftState, engine: Engine) -> bool:
        """Return whether the cycles have run out, or no branch has both patience and clients."""
        if isinstance(state, FedAvgState):
            return False
        if state.cycle >= self.settings.cycles:
            return True
        return not any(
            not branch.stopping.stopped and self.eligible(number, engine)
            for number, branch in state.branches.items()
        )

    def next_round(self, state: _FedBdftState) -> tuple[str, int]:
        """Return the number of the next round of the first stage, or of the next cycle."""
        if isinstance(state, FedAvgState):
            return self._first.next_round(state)
        return self.name, state.cycle + 1

    def apply(self, state: _FedBdftState, engine: Engine) -> tuple[_FedBdftState, RoundReport]:
        """Run one round of the first stage, or one cycle over all branches that still improve."""
        if isinstance(state, FedAvgState):
            return self._first.apply(state, engine)
        return self._cycle(state, engine)

    def eligible(self, branch: int, engine: Engine) -> list[int]:
        """Return the clients with at least gamma samples of a branch.

        Empty, so that the branch keeps its weights, if fewer than two of its children have data
        anywhere or fewer clients remain than a round needs.
        """
        if engine.children_with_data(branch) < 2:
            return []
        clients, least = range(len(engine.client_names)), self.settings.min_branch_samples
        enough = [client for client in clients if engine.samples(client, branch) >= least]
        return enough if len(enough) >= self.settings.min_clients else []

    def _cycle(self, state: BranchesState, engine: Engine) -> tuple[BranchesState, RoundReport]:
        number, tasks = state.cycle + 1, self._tasks(state, engine)
        averaged, clients, faults, lost = {}, {}, list[dict[str, Any]](), list[int]()
        updates, sent = 0, 0
        for e, outcomes in groupby(engine.train(tasks), key=_branch_of):
            gathered, name = gather(outcomes, engine), engine.branch_name(e)
            faults += [{**fault, "branch": name} for fault in gathered.faults]
            updates += len(gathered.clients)
            sent += gathered.bytes_sent
            if len(gathered.clients) < self.settings.min_clients:
                lost.append(e)  # the branch keeps its weights until the next cycle
                continue
            averaged[e] = self._averaged(state.branches[e], gathered, engine)
            clients[e] = gathered.clients
        _check(number, state, updates, bool(averaged), faults)
        accuracies = engine.branch_accuracies({e: branch.weights for e, branch in averaged.items()})
        judged = {e: _judged(averaged[e], accuracies[e]) for e in averaged}
        waiting = {e: _waiting(state.branches[e]) for e in lost}
        branches = {**state.branches, **judged, **waiting}
        score = engine.validate_branches({e: branch.best for e, branch in branches.items()})
        in_order = [
            {"branch": engine.branch_name(e), "accuracy": accuracies[e], "clients": clients[e]}
            for e in sorted(averaged)
        ]
        report = RoundReport(self.name, number, score, [], faults, in_order, sent)
        return replace(state, cycle=number, branches=branches), report

    def _tasks(self, state: BranchesState, engine: Engine) -> list[Task]:
        """Return the work of a cycle, the branches with the largest clients first."""
        number, seed = state.cycle + 1, self.settings.seed
        count = joining(len(engine.client_names), self.settings.join_ratio)
        chosen = {
            e: sample(self.eligible(e, engine), count, seed, "clients of a branch", number, e)
            for e, branch in state.branches.items()
            if not branch.stopping.stopped
        }
        return [
            Task(number, client, state.branches[e].weights, e)
            for e in longest_first(chosen, engine)
            for client in chosen[e]
        ]

    def _averaged(self, branch: BranchState, gathered: Gathered, engine: Engine) -> BranchState:
        """Return the branch with the weights of its round, not yet validated."""
        weights, memory = gathered.average.step(
            branch.weights, branch.memory, self.settings.server, engine.parameters
        )
        return replace(branch, weights=weights, memory=memory, rounds=branch.rounds + 1)

    def encode(self, state: _FedBdftState) -> Encoded:
        """Return the state as it is stored."""
        if isinstance(state, FedAvgState):
            return self._first.encode(state)
        parts, about_branches = dict[str, State](), {}
        for number, branch in state.branches.items():
            about_branches[str(number)] = {
                "stopping": asdict(branch.stopping),
                "rounds": branch.rounds,
            }
            parts |= {f"{number}/{name}": getattr(branch, name) for name in STORED}
        about = {"stage": self.name, "cycle": state.cycle, "branches": about_branches}
        return encoded(parts, {**about, "first_stage_rounds": state.first_stage_rounds})

    def decode(self, stored: Encoded) -> _FedBdftState:
        """Return the state that was stored, by this algorithm or by the run of its first stage."""
        about = stored.about
        if about["stage"] != self.name:
            return self._first.decode(stored)
        branches = {}
        for number, about_branch in about["branches"].items():
            parts = {name: stored.part(f"{number}/{name}") for name in STORED}
            stopping = EarlyStopping(**about_branch["stopping"])
            branches[int(number)] = BranchState(
                stopping=stopping, rounds=about_branch["rounds"], **parts
            )
        return BranchesState(about["cycle"], branches, about["first_stage_rounds"])

    def final_model(self, state: _FedBdftState, engine: Engine) -> FinalModel:
        """Return the best weights of every branch."""
        assert isinstance(state, BranchesState)  # a run ends after its last stage
        best = {number: branch.best for number, branch in state.branches.items()}
        return FinalModel(
            {f"branches.{n}.{name}": v for n, own in best.items() for name, v in own.items()},
            engine.validate_branches(best),
            rounds=state.first_stage_rounds,
            cycles=state.cycle,
            by_branch=True,
            untrained_branches=tuple(n for n, b in state.branches.items() if not b.rounds),
        )


def longest_first(chosen: Mapping[int, list[int]], engine: Engine) -> list[int]:
    """Order branches by their largest client, so that no core is idle at the end."""
    return sorted(
        chosen, key=lambda e: (-max((engine.samples(c, e) for c in chosen[e]), default=0), e)
    )


def _check(
    number: int, state: BranchesState, updates: int, averaged: bool, faults: list[dict[str, Any]]
) -> None:
    """Raise if no branch was ever trained because numbers grow too large or the code fails."""
    never = not averaged and not any(branch.rounds for branch in state.branches.values())
    if not updates and (never or len({fault["client"] for fault in faults}) > 1):
        stop_if_code_fails(f"cycle {number}", faults)
    if never and diverged(faults):
        raise DivergedError(
            f"cycle {number}: no branch has been trained, and {faults[0]['client']} failed with: "
            f"{faults[0]['fault']}; try a lower branch_lr"
        )


def _judged(branch: BranchState, accuracy: float | None) -> BranchState:
    """Return the branch after validation; its new weights become the best if they are."""
    if accuracy is None:  # no validation samples: keep training to the last cycle
        return replace(branch, best=branch.weights)
    stopping = branch.stopping.after(accuracy)
    best = branch.weights if stopping.improved else branch.best
    return replace(branch, stopping=stopping, best=best)


def _waiting(branch: BranchState) -> BranchState:
    """Return a branch that lost its round: this counts as a round without improvement."""
    return replace(branch, stopping=branch.stopping.without_value())


def _branch_of(outcome: tuple[Task, object]) -> int:
    branch = outcome[0].branch
    assert branch is not None  # every task of a cycle has one
    return branch

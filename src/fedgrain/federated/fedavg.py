"""FedAvg (McMahan et al. 2017) for every head.

A round: sample clients that have data, let each train from the global weights on its own labels,
average the results weighted by the samples that entered each client's loss, validate, keep the
best.

Where clients know different leaves, each round's weights lean to those its clients knew. With
``average_rounds`` n the weights that are validated and kept are a running mean over rounds: of all
rounds up to the n-th, then with weight 1/n for the newest. Training goes on from the plain weights.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from fedgrain.errors import DivergedError, FederationError
from fedgrain.federated.algorithm import Encoded, FederatedAlgorithm, FinalModel, encoded
from fedgrain.federated.averaging import State, moved_towards
from fedgrain.federated.early_stopping import EarlyStopping
from fedgrain.federated.engine import Engine, Gathered, Task, gather
from fedgrain.federated.faults import diverged, stop_if_code_fails
from fedgrain.federated.round_report import RoundReport
from fedgrain.federated.sampling import joining, sample
from fedgrain.scoring.validation_score import ValidationScore, read_score

STORED = ("weights", "memory", "mean", "best")


@dataclass(frozen=True, eq=False)
class FedAvgState:
    """The state between two rounds."""

    round: int
    weights: State
    memory: State  # of the server's optimiser
    mean: State  # over rounds; empty if weights are not averaged over rounds
    best: State
    stopping: EarlyStopping
    score: ValidationScore | None = None  # of the best weights


class FedAvg(FederatedAlgorithm[FedAvgState]):
    """Train everywhere, average, validate, keep the best."""

    name = "fedavg"

    def init(self, weights: State) -> FedAvgState:
        """Start from given weights."""
        return FedAvgState(0, weights, {}, {}, weights, self.settings.stopping)

    def finished(self, state: FedAvgState, engine: Engine) -> bool:
        """Return whether patience or the rounds have run out."""
        return state.stopping.stopped or state.round >= self.settings.rounds

    def next_round(self, state: FedAvgState) -> tuple[str, int]:
        """Return the number of the next round."""
        return self.name, state.round + 1

    def apply(self, state: FedAvgState, engine: Engine) -> tuple[FedAvgState, RoundReport]:
        """Run one round."""
        number = state.round + 1
        tasks = [Task(number, client, state.weights) for client in self.clients(number, engine)]
        return self.averaged(state, gather(engine.train(tasks), engine), engine)

    def clients(self, number: int, engine: Engine) -> list[int]:
        """Sample the clients of a round among those with data, the longest work first."""
        count = len(engine.client_names)
        eligible = [client for client in range(count) if engine.samples(client) > 0]
        if not eligible:
            raise FederationError(
                "no client has a sample that enters the loss; choose another head or supervision, "
                "or a lower alpha"
            )
        joined = joining(count, self.settings.join_ratio)
        chosen = sample(eligible, joined, self.settings.seed, "clients of a round", number)
        return sorted(
            chosen, key=engine.samples, reverse=True
        )  # so that no core is idle at the end

    def averaged(
        self, state: FedAvgState, gathered: Gathered, engine: Engine
    ) -> tuple[FedAvgState, RoundReport]:
        """Move to the mean of the updates, validate, and keep the weights if they are the best."""
        settings, number = self.settings, state.round + 1
        self._check(number, gathered)
        weights, memory = gathered.average.step(
            state.weights, state.memory, settings.server, engine.parameters
        )
        mean = {}
        if settings.average_rounds > 1:
            mean = moved_towards(state.mean, weights, 1 / min(number, settings.average_rounds))
        score = engine.validate(mean or weights)
        value = None if score is None else score.by(state.stopping.measure)
        stopping = state.stopping if value is None else state.stopping.after(value)
        kept = (state.best, state.score)
        if value is None or stopping.improved:
            kept = (mean or weights, score)
        sent = gathered.bytes_sent
        report = RoundReport(
            self.name, number, score, gathered.clients, gathered.faults, bytes_sent=sent
        )
        return FedAvgState(number, weights, memory, mean, kept[0], stopping, kept[1]), report

    def _check(self, number: int, gathered: Gathered) -> None:
        """Refuse a round in which too few clients sent an update."""
        least = self.settings.min_clients
        if len(gathered.clients) >= least:
            return
        if not gathered.clients:
            stop_if_code_fails(f"round {number}", gathered.faults)
        text = f"round {number}: {len(gathered.clients)} clients sent an update"
        if gathered.faults:
            first = gathered.faults[0]
            raise (DivergedError if diverged(gathered.faults) else FederationError)(
                f"{text}, min_clients is {least}, and {first['client']} failed with: "
                f"{first['fault']} (if numbers are not finite or too large, try a lower learning "
                "rate)"
            )
        raise FederationError(f"{text}, but min_clients is {least}; lower it")

    def encode(self, state: FedAvgState) -> Encoded:
        """Return the state as it is stored."""
        about = {"stage": self.name, "round": state.round, "stopping": asdict(state.stopping)}
        about["score"] = None if state.score is None else asdict(state.score)
        return encoded({name: getattr(state, name) for name in STORED}, about)

    def decode(self, stored: Encoded) -> FedAvgState:
        """Return the state that was stored."""
        about, parts = stored.about, {name: stored.part(name) for name in STORED}
        stopping = EarlyStopping(**{"measure": "hf", **about["stopping"]})  # of older versions
        score = read_score(about.get("score"))
        if score is None and stopping.seen and stopping.measure == "hf":
            score = ValidationScore(stopping.best, 0)
        return FedAvgState(about["round"], stopping=stopping, score=score, **parts)

    def final_model(self, state: FedAvgState, engine: Engine) -> FinalModel:
        """Return the best weights with their validation score."""
        return FinalModel(state.best, state.score, rounds=state.round)

"""The engine whose clients are sites on other machines, reached through Flower's grid.

A site gets one message for all its work in a round or cycle. Its name, not Flower's node id,
identifies the client: a site that reconnects under another id is the same client again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedgrain.calibration.record import Calibration
from fedgrain.deployment.key_record import Roster
from fedgrain.deployment.ledger import ServerLedger
from fedgrain.deployment.server_record import ServerRecord, ask_recorded
from fedgrain.engines import BuiltModel, Validator
from fedgrain.errors import FederationError, FedgrainError
from fedgrain.federated.averaging import RunningAverage, State
from fedgrain.federated.engine import Task
from fedgrain.federated.faults import Fault, Kind
from fedgrain.federated.local_training import Update
from fedgrain.federated.settings import TrainingSettings
from fedgrain.messages.calibration_counts import CALIBRATION, calibrated_by_sites
from fedgrain.messages.limits import Bounded, bounded_scores, count_limit, without_outliers
from fedgrain.messages.replies import (
    outcome_of,
    releases_of,
    score_of,
    validation_of,
)
from fedgrain.messages.traffic import Traffic
from fedgrain.messages.wire import (
    Counts,
    Models,
    by_branch,
    check_counts,
    counts_of,
    key_of,
    models_of,
    pack,
)
from fedgrain.models.trained_model import TrainedModel
from fedgrain.scoring.validation_score import ValidationScore, combined, weighted_mean
from fedgrain.text import one_line


class FlowerEngine:
    """Trains at the sites; validates there too, unless the server has a validator of its own."""

    def __init__(
        self,
        grid: Grid,
        model: BuiltModel,
        sites: Sequence[str],
        settings: TrainingSettings,
        *,
        validator: Validator | None = None,
        time_limit: float | None = None,
        new_average: Callable[[], RunningAverage] = RunningAverage,
        ledger: ServerLedger | None = None,
        most_samples: int | None = None,
        roster: Roster | None = None,
        record: ServerRecord | None = None,
    ) -> None:
        self.grid, self.model, self.client_names = grid, model, list(sites)
        self.parameters = model.parameters
        self.decouple = model.decouple
        self.branch_name = model.taxonomy.ids.__getitem__
        self.new_average = new_average
        self.traffic = Traffic()
        self.retries: list[dict[str, str]] = []  # a site that fails is asked again next round
        self.bounded: set[Bounded] = set()  # claims that were reduced
        self._most_samples = most_samples
        self._settings, self._validator, self._time_limit = settings, validator, time_limit
        self._ledger = ledger  # set if sites add noise and withhold everything else
        self._roster, self._record = roster or Roster(None), record
        self._declined: set[int] = set()  # nodes whose policy declined; they are asked again
        self._nodes: dict[int, int] = {}  # client -> its node
        self._asked: set[tuple[int, str]] = set()  # node ids, with when they connected
        # nodes that did not answer, with the time until which Flower lists them
        self._late: dict[int, float] = {}
        self._counts: dict[int, Counts] = {}  # client -> what it reported

    # connected sites

    def refresh(self) -> list[str]:
        """Find the connected sites, ask new ones for their counts, and return what to report."""
        infos, said = self._roster.admit({info.node_id: info for info in self.grid.get_nodes()})
        self._nodes = {client: node for client, node in self._nodes.items() if node in infos}
        keys = {(node, info.last_activated_at) for node, info in infos.items()}
        new = {node for node, _ in keys - self._asked}
        alive = {
            n for n, until in self._late.items() if n in infos and infos[n].online_until > until
        }
        self._asked |= keys
        for node in new | alive:
            self._late.pop(node, None)
        asked = new | alive | {node for node in self._declined if node in infos}
        answers = self._ask({node: RecordDict() for node in sorted(asked)}, "query")
        self._declined = {node for node, answer in answers.items() if _declines(answer)}
        for node, answer in answers.items():
            try:
                if isinstance(answer, Fault):
                    raise FederationError(answer.reason)
                said.append(self._welcome(node, infos[node].name, counts_of(answer.content)))
            except FedgrainError as error:
                name = one_line(infos[node].name or f"node {node}")
                said.append(f"{name} does not take part: {error}")
        for client in self._counts:
            self.samples(client)  # records claims that are too large
        return said

    def _welcome(self, node: int, registered: str, counts: Counts) -> str:
        """Remember a site; refuse one that is unexpected or registered under another name."""
        check_counts(counts, registered, self.client_names, self.model.taxonomy)
        client = self.client_names.index(counts.site)
        self._nodes[client], self._counts[client] = node, counts
        if self._ledger is not None:
            return f"{counts.site} is connected; it keeps its counts private"
        return f"{counts.site} is connected with {counts.whole} samples"

    def missing(self) -> list[str]:
        """Return the sites that are not connected."""
        return [name for number, name in enumerate(self.client_names) if number not in self._nodes]

    def samples(self, client: int, branch: int | None = None) -> int:
        """Return how many samples of a site count, for the whole model or a branch.

        This is what the site reported when it connected, 0 before. A claim above the limit (the
        operator's, or one from the other sites' median) counts as the limit, and is recorded.
        """
        claimed = self._claimed(client, branch)
        others = [counts.whole for other, counts in self._counts.items() if other != client]
        limit = count_limit(others, self._most_samples)
        if limit is None or claimed <= limit:
            return claimed
        what = "samples" if branch is None else f"samples of branch {self.branch_name(branch)}"
        self.bounded.add(Bounded(self.client_names[client], what, claimed, int(limit)))
        return int(limit)

    def _claimed(self, client: int, branch: int | None) -> int:
        counts = self._counts.get(client)
        if counts is None:
            return 0
        return counts.whole if branch is None else counts.branches[branch]

    def children_with_data(self, branch: int) -> int:
        """Return how many children of a branch have data at any site."""
        marks = [counts.children[branch] for counts in self._counts.values()]
        return sum(any(column) for column in zip(*marks, strict=True))

    # training

    def train(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Update | Fault]]:
        """Send every site all its tasks in one message; outcomes come in the order of the tasks."""
        work: dict[int, dict[int | None, State]] = {}
        for task in tasks:
            work.setdefault(task.client, {})[task.branch] = task.weights
        number = tasks[0].round if tasks else 0
        corrections = {task.client: task.correction for task in tasks if task.correction}
        answers = self._ask_to_train(work, number, corrections)
        outcomes = [(task, self._outcome(task, answers[task.client])) for task in tasks]
        yield from without_outliers(outcomes, self._steps)

    def _outcome(self, task: Task, answer: Message | Fault) -> Update | Fault:
        """Read an update; its weight is the number of samples that count for the site."""
        outcome = outcome_of(task, answer, self._claimed(task.client, task.branch))
        if isinstance(outcome, Fault):
            return outcome
        return replace(outcome, samples=self.samples(task.client, task.branch))

    def _steps(self, task: Task) -> int:
        """Return the steps in an epoch of a task, from the samples that count for its site."""
        settings = self._settings.local if task.branch is None else self._settings.branch
        return -(-self.samples(task.client, task.branch) // settings.batch)

    def _ask_to_train(
        self, work: Mapping[int, Models], number: int, corrections: Mapping[int, State]
    ) -> dict[int, Message | Fault]:
        """Send the work; if sites add noise, record every release first."""
        if self._ledger is None:
            return self._ask_sites(work, "train", corrections, round=number)
        names, ledger = self.client_names, self._ledger
        ledger.add(number, [names[client] for client in work if client in self._nodes])
        answers = self._ask_sites(work, "train", corrections, round=number, run=ledger.run)
        for client, answer in answers.items():
            if isinstance(answer, Message):
                ledger.agree(number, names[client], releases_of(answer.content))
        return answers

    # validation

    def validate(self, weights: State) -> ValidationScore | None:
        """Return the validation score of the whole model; None if the sites withhold it."""
        if self._validator is not None:
            return self._validator.validate(weights)
        return self._score({None: weights})

    def validate_branches(self, weights: Mapping[int, State]) -> ValidationScore | None:
        """Return the validation score of the decoupled model; None if it is withheld."""
        if self._validator is not None:
            return self._validator.validate_branches(weights)
        return self._score(by_branch(weights))

    def branch_accuracies(self, weights: Mapping[int, State]) -> dict[int, float | None]:
        """Return each branch's accuracy over the validation samples below it, or None."""
        if self._validator is not None:
            return {e: self._validator.validate_branch(e, state) for e, state in weights.items()}
        withheld = self._ledger is not None or not weights
        reported = [] if withheld else self._accuracies(by_branch(weights))
        return {
            e: weighted_mean([scores.get(key_of(e), (0.0, 0.0)) for scores in reported])
            for e in weights
        }

    def _score(self, models: Models) -> ValidationScore | None:
        """Combine everyone's validation scores (method, section 10); bound the sites' counts."""
        if self._ledger is not None:
            return None
        found = {}
        for client, scores in self._answers(models, "hf").items():
            score = validation_of(scores)
            if score is not None:
                found[client] = score
        own = {client: {"hf": (score.hf, score.samples)} for client, score in found.items()}
        believed, notes = bounded_scores(own, self._most_samples, self.client_names)
        self.bounded.update(notes)
        pairs = zip(found.values(), believed, strict=True)
        mean = combined(
            [s if s.samples == b["hf"][1] else s.counted_as(b["hf"][1]) for s, b in pairs]
        )
        if mean is None:
            raise FederationError(
                "no site answered with a validation score; early stopping needs validation images "
                "at the sites or at the server"
            )
        return mean

    def calibrated(self, model: TrainedModel) -> Calibration | None:
        """Calibrate the final model at the sites; None if they withhold what it takes."""
        if self._ledger is not None:
            return None
        models = models_of(model.net)

        def ask_all(what: str, about: Mapping[str, str]) -> dict[int, Mapping[str, Any]]:
            return self._answers(models, what, CALIBRATION, **about)

        return calibrated_by_sites(ask_all, self.model.taxonomy, self._most_samples)

    def _answers(
        self, models: Models, what: str, record: str = "scores", **about: str
    ) -> dict[int, Mapping[str, Any]]:
        """Ask every connected site for scores; return what those sent that answered."""
        work = dict.fromkeys(sorted(self._nodes), models)
        return {
            client: answer.content.metric_records.get(record, {})
            for client, answer in self._ask_sites(
                work, "evaluate", None, what=what, **about
            ).items()
            if isinstance(answer, Message)
        }

    def _accuracies(self, models: Models) -> list[dict[str, tuple[float, float]]]:
        """Return each site's (accuracy, samples) by branch, with bounded samples."""
        found = {}
        for client, scores in self._answers(models, "accuracies").items():
            pairs = {key: score_of(scores[key]) for key in map(key_of, models) if key in scores}
            found[client] = {key: pair for key, pair in pairs.items() if pair is not None}
        believed, notes = bounded_scores(found, self._most_samples, self.client_names)
        self.bounded.update(notes)
        return believed

    # messages

    def _ask_sites(
        self,
        work: Mapping[int, Models],
        kind: str,
        corrections: Mapping[int, State] | None = None,
        **about: int | str,
    ) -> dict[int, Message | Fault]:
        """Send each site its models; a site that is not connected gets a fault at once."""
        there = {client: self._nodes[client] for client in work if client in self._nodes}
        contents = {
            node: pack(work[client], (corrections or {}).get(client), client=client, **about)
            for client, node in there.items()
        }
        answers = self._ask(contents, kind)
        gone = Fault("it is not connected", Kind.GONE)
        return {client: answers[there[client]] if client in there else gone for client in work}

    def _ask(self, contents: Mapping[int, RecordDict], kind: str) -> dict[int, Message | Fault]:
        """Send messages and wait for the answers; leave out who did not answer."""
        names = {node: self._name(node) for node in contents}
        asked = ask_recorded(self._record, names, self.grid, contents, kind, self._time_limit)
        replies = [one.content for one in asked.answers.values() if isinstance(one, Message)]
        self.traffic.add(list(contents.values()), replies, asked.seconds)
        if asked.silent:
            self._leave_out(asked.silent)
        return asked.answers

    def _name(self, node: int) -> str:
        """Return the name of a node's site, if it has told it."""
        names = [self.client_names[client] for client, own in self._nodes.items() if own == node]
        return names[0] if names else f"node {node}"

    def _leave_out(self, nodes: Collection[int]) -> None:
        """Send nothing to nodes that did not answer until they send a new heartbeat."""
        infos = {info.node_id: info for info in self.grid.get_nodes()}
        self._late |= {node: infos[node].online_until for node in nodes if node in infos}
        self._nodes = {client: node for client, node in self._nodes.items() if node not in nodes}


def _declines(answer: Message | Fault) -> bool:
    return isinstance(answer, Fault) and answer.kind == Kind.DECLINED

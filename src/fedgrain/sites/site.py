"""A site: its own images and labels, and its answers to the server.

What leaves the site: model updates, the loss, counts of samples (rounded where asked), validation
scores, and at the end sums of losses and counts of scores that calibrate the model. With
differential privacy it is noised updates alone. Images, labels and names of files never leave it.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from fedgrain.config.config import Config
from fedgrain.deployment.app import App
from fedgrain.deployment.ledger import SiteLedger
from fedgrain.deployment.privacy import Privacy
from fedgrain.engines import ClientTrainer, SequentialEngine
from fedgrain.errors import DeploymentError
from fedgrain.federated import Fault, LabelledPart, Update
from fedgrain.federated.averaging import State
from fedgrain.folders.folder import load_folder
from fedgrain.heads import branch_dataset
from fedgrain.messages.calibration_counts import CALIBRATION, calibrates, counted_at_site
from fedgrain.messages.wire import (
    Counts,
    correction_of,
    key_of,
    pairs_of,
    record_of,
    rounded,
    unpack,
)
from fedgrain.preparation.prepare import Prepared, prepare, prepare_from
from fedgrain.runs.calibrate import spaced
from fedgrain.scoring.validation_score import ValidationScore
from fedgrain.sites.noised_updates import Release

NOTHING = LabelledPart(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class Site:
    """One site, with an engine of which it is the only client."""

    name: str
    engine: SequentialEngine
    rounding: int = 1
    release: Release | None = None  # how updates leave with differential privacy
    withheld: bool = False  # the owner lets no counts leave

    def under(self, rounding: int, *, counts: bool) -> Site:
        """Return the site with what its owner's policy says of counts; it cannot be widened."""
        return replace(self, rounding=max(self.rounding, rounding), withheld=not counts)

    # what it reports of its data

    def counts(self) -> Counts:
        """Count the samples that enter the loss; children whose count rounds to 0 are not reported.

        With differential privacy, and where the owner lets no counts leave, every site reports the
        same: one sample of everything.
        """
        taxonomy = self.engine.trainer.federation.taxonomy
        if self.release is not None or self.withheld:
            ones = {int(e): [1] * len(taxonomy.children(e)) for e in taxonomy.internal}
            return Counts(self.name, 1, dict.fromkeys(ones, 1), ones)
        branches, children = {}, {}
        for number in taxonomy.internal:
            e = int(number)
            branches[e] = rounded(self.engine.samples(0, e), self.rounding)
            marks = [0] * len(taxonomy.children(e))
            children[e] = (
                self.engine.trainer.has_children(0, e).int().tolist() if branches[e] else marks
            )
        whole = rounded(self.engine.samples(0), self.rounding)
        return Counts(self.name, whole, branches, children)

    # what it does

    def train(self, content: RecordDict) -> RecordDict:
        """Train every model of a message; if one fails, the others are still sent."""
        models, answer = unpack(content), RecordDict()
        outcomes = {branch: self._trained(content, branch, models[branch]) for branch in models}
        if self.release is not None:
            return self._released(content, self.release, models, outcomes)
        for branch, update in outcomes.items():
            key = key_of(branch)
            if self.withheld:  # without samples, nothing changes: a fault would tell
                state = models[branch] if isinstance(update, Fault) else update.state
                answer[key] = record_of(state)
                answer[f"{key} told"] = MetricRecord({"samples": 1})
                continue
            if isinstance(update, Fault):
                answer[key] = ConfigRecord({"fault": update.reason})
                continue
            samples, steps = rounded(update.samples, self.rounding), update.steps
            if self.rounding > 1:  # steps would reveal the count to within a batch
                settings = self.engine.trainer.settings
                local = settings.local if branch is None else settings.branch
                steps = local.epochs * -(-samples // local.batch)
            answer[key] = record_of(update.state)
            loss = np.nan if update.loss is None else update.loss
            summary = [float(samples), loss, float(steps or 0)]
            answer[f"{key} told"] = MetricRecord({"update": summary})
        return answer

    def _trained(self, content: RecordDict, branch: int | None, state: State) -> Update | Fault:
        """Train one model; of a fault only the type is sent: its text may name files or labels."""
        about = content.config_records["about"]
        round_number, client = int(str(about["round"])), int(str(about["client"]))
        try:
            correction = correction_of(content)
            return self.engine.trainer.train(
                round_number, 0, state, branch, correction, drawn_as=client
            )
        except Exception as error:
            traceback.print_exc()  # here, at the site
            return Fault(type(error).__name__)

    def _released(
        self,
        content: RecordDict,
        release: Release,
        models: Mapping[int | None, State],
        outcomes: Mapping[int | None, Update | Fault],
    ) -> RecordDict:
        """Answer with noised updates; failed training counts as an update of zero."""
        about = content.config_records["about"]
        trained = {
            branch: models[branch] if isinstance(outcome, Fault) else outcome.state
            for branch, outcome in outcomes.items()
        }
        noised, number = release.made(models, trained, str(about["run"]), int(str(about["round"])))
        answer = RecordDict({"releases": MetricRecord({"count": number})})
        for branch, state in noised.items():
            answer[key_of(branch)] = record_of(state)
            answer[f"{key_of(branch)} told"] = MetricRecord({"samples": 1})
        return answer

    def evaluate(self, content: RecordDict) -> RecordDict:
        """Score models on the site's own validation images (method, section 10)."""
        if self.release is not None:
            raise DeploymentError("with differential privacy the site sends no scores")
        models = unpack(content)
        own = self.engine.trainer.federation.clients[0].validation or NOTHING
        scores: dict[str, list[float]] = {}
        if calibrates(content):
            return self._calibrate(content, own)
        if content.config_records["about"]["what"] == "hf" and len(own):
            scores = pairs_of(self._score(models), self.rounding)
        elif len(own):
            for branch, state in models.items():
                if branch is None:
                    raise DeploymentError("the server asks for a branch, but sent a whole model")
                below = self._validation_below(branch, own)
                accuracy = self.engine.validator.validate_branch(branch, state)
                if accuracy is not None:
                    samples = rounded(below, self.rounding)
                    scores[key_of(branch)] = [accuracy, float(samples)]
        return RecordDict({"scores": MetricRecord(dict(scores))})

    def _calibrate(self, content: RecordDict, own: LabelledPart) -> RecordDict:
        """Answer with sums of losses, or with counts of scores; a site that rounds sends neither.

        Counts are exact or worth nothing: a guarantee cannot rest on rounded ones.
        """
        if self.rounding > 1:
            return RecordDict({CALIBRATION: MetricRecord({})})
        models = unpack(content)
        part = own[spaced(len(own), by_branch=None not in models)]
        logits = self.engine.validator.logits(models, part.indices)
        about = content.config_records["about"]
        sent = counted_at_site(self.engine.model.head, (logits, part.labels), about)
        return RecordDict({CALIBRATION: MetricRecord(sent)})

    def _score(self, models: Mapping[int | None, State]) -> ValidationScore:
        whole = models.get(None)
        if whole is not None:
            return self.engine.validate(whole)
        return self.engine.validate_branches({e: s for e, s in models.items() if e is not None})

    def _validation_below(self, branch: int, own: LabelledPart) -> int:
        labels = torch.from_numpy(own.labels)
        rows, _ = branch_dataset(self.engine.trainer.federation.taxonomy, labels, branch)
        return len(rows)


def open_site(
    app: App,
    node: Mapping[str, Any],
    sites: Sequence[str],
    rounding: int = 1,
    privacy: Privacy | None = None,
) -> Site:
    """Open the site a node's own settings describe.

    ``site`` and ``images`` (and, if given, ``knowledge``) name the site and its files, and
    ``allow-links`` lets links lead out of the folder of ``images``; ``net-weights`` is the file of
    a trunk's weights at the site, if it is not where the app says; or
    ``partition-id`` makes it one client of a benchmark that every machine has in full.
    """
    rounding = int(node.get("count-rounding", rounding))
    if rounding < 1:
        raise DeploymentError(f"count-rounding is {rounding}, but must be at least 1")
    release = _release(node, privacy)
    if "net-weights" in node:  # where this site has the weights of the trunk
        own = replace(app.config, net_weights=str(node["net-weights"]))
        app = replace(app, config=own)
    if app.config.dataset != "folder":
        return replace(_benchmark_site(app, node, sites, rounding), release=release)
    for wanted in ("site", "images"):
        if wanted not in node:
            raise DeploymentError(
                f"the node's settings lack {wanted}; start it with --node-config "
                '\'site="NAME" images="/path/images.csv"\''
            )
    knowledge = str(node["knowledge"]) if "knowledge" in node else None
    name = str(node["site"])
    links = node.get("allow-links", False) is True
    prepared = prepare_site(app, name, Path(str(node["images"])), knowledge, allow_links=links)
    return Site(name, alone(prepared, 0), rounding, release)


def _release(node: Mapping[str, Any], privacy: Privacy | None) -> Release | None:
    """Return how updates are released; noise and a ledger require each other."""
    if privacy is None:
        if "ledger" in node:
            raise DeploymentError(
                "the node's settings name a ledger, but the app asks for updates without noise; "
                "this site sends none: ask the server for differential privacy, or drop the ledger"
            )
        return None
    if "ledger" not in node:
        raise DeploymentError(
            "with differential privacy a site keeps a ledger of what it sends; start it with "
            "--node-config '... ledger=\"/path/releases.jsonl\"'"
        )
    path = Path(str(node["ledger"]))
    if not path.parent.is_dir():
        raise DeploymentError(f"ledger {path}: there is no folder {path.parent}; make it first")
    return Release(privacy, SiteLedger(path))


def prepare_site(
    app: App, name: str, images: Path, knowledge: str | None = None, *, allow_links: bool = False
) -> Prepared:
    """Read a site's own manifest; all images belong to the site, whatever their ``client``."""
    data = load_folder(
        manifest=images,
        taxonomy=app.tree,
        allow_links=allow_links,
        progress=False,
        **app.decoding,
    )
    everyone = np.zeros(len(data), np.int32)
    data = replace(data, clients=everyone, client_names=(name,))
    return prepare_from(_site_config(app.config, knowledge), data, app.trunk)


def _site_config(config: Config, knowledge: str | None) -> Config:
    """Return the config as one site sees it: one client, whose knowledge stays with it."""
    return replace(
        config,
        clients=1,
        min_clients=1,
        partition="manifest",
        knowledge=knowledge or "inferred",
        validation="clients",
    )


def _benchmark_site(app: App, node: Mapping[str, Any], sites: Sequence[str], rounding: int) -> Site:
    prepared = prepare(app.config)
    number, clients = int(node.get("partition-id", -1)), prepared.federation.clients
    if not 0 <= number < len(clients):
        raise DeploymentError(
            f"partition-id is {node.get('partition-id')}, but must lie between 0 and "
            f"{len(clients) - 1}; set it with --node-config 'partition-id=0'"
        )
    return Site(sites[number], alone(prepared, number), rounding)


def alone(prepared: Prepared, number: int) -> SequentialEngine:
    """Return an engine with only this client."""
    own = prepared.federation.clients[number]
    nothing = None if own.validation is not None else NOTHING
    federation = replace(prepared.federation, clients=(own,), validation=nothing)
    return SequentialEngine(ClientTrainer(federation, prepared.spec, prepared.settings))

"""Trains a client on its own samples, and counts what it has.

Any process that builds a trainer from the same description gives the same answer to the same task.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgrain.engines.built_model import BuiltModel
from fedgrain.engines.fedmt_reader import FedMTReader
from fedgrain.engines.label_reader import LabelReader
from fedgrain.engines.model_spec import ModelSpec
from fedgrain.engines.sibling_reader import SiblingReader
from fedgrain.federated.averaging import State
from fedgrain.federated.federation import Federation
from fedgrain.federated.local_training import Loss, TrainingData, Update, train_locally
from fedgrain.federated.settings import TrainingSettings
from fedgrain.heads import (
    TOGETHER,
    LossTerms,
    Supervised,
    branch_dataset,
    branch_losses,
    supervise,
    unknown_children,
)
from fedgrain.heads.chunks import run_in_chunks
from fedgrain.heads.fedlc import LogitCalibration
from fedgrain.heads.fedrs import RestrictedSoftmax
from fedgrain.heads.leaf_softmax import LeafSoftmax
from fedgrain.randomness import numpy_generator


class ClientTrainer:
    """The model, and every client's samples prepared for it."""

    def __init__(
        self,
        federation: Federation,
        spec: ModelSpec,
        settings: TrainingSettings,
        device: str = "cpu",
    ) -> None:
        self.federation, self.settings = federation, settings
        shape = federation.source.shape
        self.model = BuiltModel(spec, federation.taxonomy, shape, settings.seed, device)
        self.label_reader = cache(self._label_reader)
        self.supervised = cache(self._supervised)
        self.supervised(0)  # refuse a meaningless combination before anything is trained
        self.whole_data = cache(self._whole_data)
        self.certain = cache(self._certain)
        self.branch_data = cache(self._branch_data)
        self.samples = cache(self._samples)
        self.children_with_data = cache(self._children_with_data)

    def train(
        self,
        round_number: int,
        client: int,
        weights: State,
        branch: int | None,
        correction: State | None = None,
        *,
        drawn_as: int | None = None,
    ) -> Update:
        """Train one client from the given weights; the result depends only on the arguments.

        An update always weighs as much as the client's samples, also where a round leaves some out.
        A site with only its own data is client 0 here; with ``drawn_as`` it still uses the random
        numbers of its place in the federation.
        """
        seed, numbers = self.settings.seed, (round_number, client if drawn_as is None else drawn_as)
        loss: Loss
        if branch is None:
            loss, data = self._round(round_number, client, weights)
            generator = numpy_generator(seed, "local training", *numbers)
            local, net = self.settings.local_in(round_number), self.model.net
            update = train_locally(net, weights, loss, data, local, generator, correction)
            return replace(update, samples=self.samples(client))
        generator = numpy_generator(seed, "branch training", *numbers, branch)
        losses = self._branch_losses(client, branch, weights)
        loss = partial(_branch_loss, losses, self.model.spec.terms)
        data, net = self.branch_data(client, branch), self.model.branch_nets[branch]
        local = self.settings.branch_in(round_number)
        return train_locally(net, weights, loss, data, local, generator, correction)

    def _round(self, round_number: int, client: int, weights: State) -> tuple[Loss, TrainingData]:
        """Return the loss and the targets of a round that starts from these weights."""
        if self.model.spec.supervision == "learned":
            reader = self.label_reader(client)
            if not isinstance(self.model.head, LeafSoftmax):
                return reader.loss(round_number, weights).entered_loss, self.whole_data(client)
            supervised, data = reader.shared_out(round_number, weights)
            return supervised.shared_loss, data
        if self.model.spec.responsibilities == "round":
            return self.supervised(client).shared_loss, self._shared_out(client, weights)
        return self.supervised(client).entered_loss, self.whole_data(client)

    def _samples(self, client: int, branch: int | None = None) -> int:
        """Return how many of a client's samples enter the loss, of the whole or of a branch.

        The server asks this for every client, so it keeps only the number, not the samples.
        """
        data = self._whole_data(client) if branch is None else self._branch_data(client, branch)
        return len(data.indices)

    def _children_with_data(self, branch: int) -> int:
        """Return how many children of a branch have data at any client.

        A sample for all unknown children together counts as data for each of them.
        """
        clients = range(len(self.federation.clients))
        marks = torch.stack([self.has_children(client, branch) for client in clients])
        return int(marks.any(0).sum())  # [clients, children]

    def has_children(self, client: int, branch: int) -> Tensor:
        """Return a mask [children]: the children of a branch for which a client has data."""
        taxonomy, data = self.federation.taxonomy, self._branch_data(client, branch)
        targets, labellers = _apart(data.targets)
        seen = torch.zeros(len(taxonomy.children(branch)), dtype=torch.bool)
        seen[targets[targets != TOGETHER]] = True
        if bool((targets == TOGETHER).any()):
            unknown = unknown_children(taxonomy, branch, self._branch_known(client))
            seen |= unknown[labellers[targets == TOGETHER]].any(0)
        return seen

    def _supervised(self, client: int) -> Supervised:
        supervision = self.model.spec.supervision
        if supervision == "learned":  # before anything is learned
            return self.label_reader(client).first()
        terms = self.model.spec.terms
        if supervision != "projection":  # the same for all clients
            if client and not self._calibrated:
                return self.supervised(0)
            read = supervise(self.model.head, supervision, terms=terms)
            read.trained_as = self._trained_as(client) if self._calibrated else None
            return read
        known, laziness = self.federation.clients[client].known, self.model.spec.laziness
        read = supervise(self.model.head, supervision, known=known, laziness=laziness, terms=terms)
        read.warns = False  # preparing the run warned once, for all clients
        return read

    @property
    def _calibrated(self) -> bool:
        """Whether a client's loss depends on the classes it has labels of (FedRS, FedLC)."""
        spec = self.model.spec
        return spec.restricted_softmax is not None or spec.logit_calibration > 0

    def _trained_as(self, client: int) -> nn.Module:
        """Return what a client does to the scores of the leaves, by how often it names each."""
        spec, taxonomy = self.model.spec, self.federation.taxonomy
        labels = self.federation.clients[client].train.labels
        counts = torch.from_numpy(np.bincount(labels, minlength=len(taxonomy))[taxonomy.leaves])
        if spec.restricted_softmax is not None:
            return RestrictedSoftmax(counts, spec.restricted_softmax).to(self.model.device)
        return LogitCalibration(counts, spec.logit_calibration).to(self.model.device)

    def _label_reader(self, client: int) -> LabelReader:
        kinds = {"stops": LabelReader, "siblings": SiblingReader, "fedmt": FedMTReader}
        return kinds[self.model.spec.labeller](
            self.model, self.federation.source, self.federation.clients[client]
        )

    def _branch_known(self, client: int) -> NDArray[np.bool_]:
        """Return what a client's labellers know, or seem to know, where a branch is trained."""
        if self.model.spec.branch_supervision == "learned":
            return self.label_reader(client).known
        return self.federation.clients[client].known

    def _whole_data(self, client: int) -> TrainingData:
        part = self.federation.clients[client].train
        labels = torch.from_numpy(part.labels)
        entering = self.supervised(client).enters(labels.to(self.model.device)).cpu()
        entered = part[entering.numpy()]
        targets = labels[entering]
        if self.model.spec.supervision in ("projection", "learned"):
            targets = entered.with_labellers(targets)
        return TrainingData(self.federation.source, entered.indices, targets)

    def _shared_out(self, client: int, weights: State) -> TrainingData:
        """Distribute every label over the leaves by the global model (EM's E-step)."""
        data, supervised, shares = self.whole_data(client), self.supervised(client), []
        targets = self.model.split(data.targets)
        if self.certain(client):  # nothing to ask the model
            sets = [supervised.stands_for(labels).float() for labels in targets]
            return TrainingData(data.source, data.indices, torch.cat(sets).cpu())
        self.model.net.load_state_dict(weights)
        blocks = self.model.blocks(data.source, data.indices)
        for images, labels in zip(blocks, targets, strict=True):
            logits = run_in_chunks(self.model.net, images)
            shares.append(supervised.responsibilities(logits, labels))
        return TrainingData(data.source, data.indices, torch.cat(shares).cpu())

    def _certain(self, client: int) -> bool:
        """Return whether each of a client's labels stands for one leaf, as without skew."""
        targets, supervised = self.whole_data(client).targets, self.supervised(client)
        return all(
            bool((supervised.stands_for(labels).sum(1) == 1).all())
            for labels in self.model.split(targets)
        )

    def _branch_data(self, client: int, branch: int) -> TrainingData:
        site, supervision = self.federation.clients[client], self.model.spec.branch_supervision
        labels, labellers = torch.from_numpy(site.train.labels), site.train.labellers
        who = None if labellers is None else torch.from_numpy(labellers)
        rows, targets = branch_dataset(
            self.federation.taxonomy, labels, branch, supervision, self._branch_known(client), who
        )
        entered = site.train[rows.numpy()]
        if supervision in ("projection", "learned"):
            targets = entered.with_labellers(targets)
        return TrainingData(self.federation.source, entered.indices, targets)

    def _branch_losses(self, client: int, branch: int, weights: State) -> Loss:
        """Return what gives the loss of each sample of a branch."""
        supervision = self.model.spec.branch_supervision
        if supervision == "learned":
            labellers = self.label_reader(client).at_branch(branch, weights)
            children = self.federation.taxonomy.children(branch)
            stops = torch.tensor(labellers.stops[:, children]).to(self.model.device)

            def learned_losses(logits: Tensor, targets: Tensor) -> Tensor:
                children, labellers = _apart(targets)
                return branch_losses(logits, children, stops=stops[labellers])

            return learned_losses
        if supervision != "projection":
            return branch_losses
        known, laziness = self.federation.clients[client].known, self.model.spec.laziness
        unknown = unknown_children(self.federation.taxonomy, branch, known).to(self.model.device)

        def losses(logits: Tensor, targets: Tensor) -> Tensor:
            children, labellers = _apart(targets)
            return branch_losses(logits, children, unknown[labellers], laziness)

        return losses


def _branch_loss(losses: Loss, terms: LossTerms, logits: Tensor, targets: Tensor) -> Tensor:
    return terms.of_branch(logits, losses(logits, targets)).mean()


def _apart(targets: Tensor) -> tuple[Tensor, Tensor]:
    """Split what ``with_labellers`` combined; a single labeller has the number 0."""
    if targets.ndim == 1:
        return targets, torch.zeros_like(targets)
    return targets[:, 0], targets[:, 1]

"""Train and validate in one process: nets, heads and every client's prepared samples.

Every process builds its own from the same description, so all give the same answer to the same
task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedgrain.catalogue import check_pair
from fedgrain.errors import FederationError, NetError
from fedgrain.federated.averaging import State, weighted_mean
from fedgrain.federated.federation import Federation, Indices, LabelledPart
from fedgrain.federated.local_training import Loss, TrainingData, Update, snapshot, train_locally
from fedgrain.federated.settings import TrainingSettings
from fedgrain.heads import (
    TOGETHER,
    CondSoftmax,
    DecoupledModel,
    Supervised,
    branch_dataset,
    branch_losses,
    build_head,
    decouple,
    supervise,
    unknown_children,
)
from fedgrain.heads.chunks import run_in_chunks, samples_at_once
from fedgrain.nets import build_net
from fedgrain.randomness import numpy_generator, torch_generator_from
from fedgrain.scoring.metrics import mean_hf
from fedgrain.scoring.rules import predict


@dataclass(frozen=True)
class Model:
    """Which net and head, and how labels are read; the names are those of the command line."""

    net: str
    head: str
    supervision: str = "paper"
    branch_supervision: str = "paper"
    laziness: float = 0.0
    responsibilities: str = "step"  # or "round": labels are distributed over leaves once a round
    head_settings: Mapping[str, Any] = field(default_factory=dict)  # of build_head


class Workshop:
    """Trains clients and validates models."""

    def __init__(
        self, federation: Federation, model: Model, settings: TrainingSettings, device: str = "cpu"
    ) -> None:
        check_pair(model.net, model.head, NetError)
        self.federation, self.model, self.settings = federation, model, settings
        self.device = torch.device(device)
        self.at_once = samples_at_once(len(federation.taxonomy))
        self.head = build_head(model.head, federation.taxonomy, **model.head_settings)
        self.head = self.head.to(self.device)
        self.supervised = cache(self._supervised)
        self.supervised(0)  # refuse a meaningless combination before anything is trained
        generator = torch_generator_from(numpy_generator(settings.seed, "initial weights"))
        shape = federation.source.shape
        net = build_net(model.net, self.head.num_outputs, generator=generator, image_shape=shape)
        self.net = net.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.initial = snapshot(self.net)
        trained = (name for name, weight in self.net.named_parameters() if weight.requires_grad)
        self.parameters = frozenset(trained)  # the same names in every branch
        self.whole_data = cache(self._whole_data)
        self.branch_data = cache(self._branch_data)
        self.samples = cache(self._samples)
        self.children_with_data = cache(self._children_with_data)

    # training

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

        A site with only its own data is client 0 of its workshop; with ``drawn_as`` it still uses
        the random numbers of its place in the federation.
        """
        seed, numbers = self.settings.seed, (round_number, client if drawn_as is None else drawn_as)
        loss: Loss
        if branch is None:
            loss, data = self.supervised(client).loss, self.whole_data(client)
            if self.model.responsibilities == "round":
                loss, data = self.supervised(client).shared_loss, self._shared_out(client, weights)
            generator = numpy_generator(seed, "local training", *numbers)
            local = self.settings.local
            return train_locally(self.net, weights, loss, data, local, generator, correction)
        generator = numpy_generator(seed, "branch training", *numbers, branch)
        loss = self._branch_loss(client, branch)
        data, net = self.branch_data(client, branch), self.branch_nets[branch]
        return train_locally(net, weights, loss, data, self.settings.branch, generator, correction)

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
            unknown = unknown_children(taxonomy, branch, self.federation.clients[client].known)
            seen |= unknown[labellers[targets == TOGETHER]].any(0)
        return seen

    def _supervised(self, client: int) -> Supervised:
        supervision = self.model.supervision
        if supervision != "projection":  # the same for all clients
            return self.supervised(0) if client else supervise(self.head, supervision)
        known, laziness = self.federation.clients[client].known, self.model.laziness
        return supervise(self.head, supervision, known=known, laziness=laziness)

    def _whole_data(self, client: int) -> TrainingData:
        part = self.federation.clients[client].train
        labels = torch.from_numpy(part.labels)
        entering = self.supervised(client).enters(labels.to(self.device)).cpu()
        entered = part[entering.numpy()]
        targets = labels[entering]
        if self.model.supervision == "projection":
            targets = _with_labellers(targets, entered)
        return TrainingData(self.federation.source, entered.indices, targets)

    def _shared_out(self, client: int, weights: State) -> TrainingData:
        """Distribute every label over the leaves by the global model (EM's E-step)."""
        self.net.load_state_dict(weights)
        data, supervised, shares = self.whole_data(client), self.supervised(client), []
        parts = torch.split(data.targets.to(self.device), self.at_once)
        for images, labels in zip(self._blocks(data.indices), parts, strict=True):
            shares.append(supervised.responsibilities(run_in_chunks(self.net, images), labels))
        return TrainingData(data.source, data.indices, torch.cat(shares).cpu())

    def _branch_data(self, client: int, branch: int) -> TrainingData:
        site, supervision = self.federation.clients[client], self.model.branch_supervision
        labels, labellers = torch.from_numpy(site.train.labels), site.train.labellers
        who = None if labellers is None else torch.from_numpy(labellers)
        rows, targets = branch_dataset(
            self.federation.taxonomy, labels, branch, supervision, site.known, who
        )
        entered = site.train[rows.numpy()]
        if supervision == "projection":
            targets = _with_labellers(targets, entered)
        return TrainingData(self.federation.source, entered.indices, targets)

    def _branch_loss(self, client: int, branch: int) -> Loss:
        if self.model.branch_supervision != "projection":
            return lambda logits, targets: branch_losses(logits, targets).mean()
        known, laziness = self.federation.clients[client].known, self.model.laziness
        unknown = unknown_children(self.federation.taxonomy, branch, known).to(self.device)

        def loss(logits: Tensor, targets: Tensor) -> Tensor:
            children, labellers = _apart(targets)
            return branch_losses(logits, children, unknown[labellers], laziness).mean()

        return loss

    # branches

    @cached_property
    def branch_nets(self) -> dict[int, nn.Module]:
        """A net per branch; made on first use."""
        return self._decoupled()

    def _decoupled(self) -> dict[int, nn.Module]:
        if not isinstance(self.head, CondSoftmax):
            raise FederationError(f"fedbdft needs the head cond-softmax, not {self.model.head}")
        return decouple(self.net, self.head)

    def decoupled(self, weights: State) -> dict[int, State]:
        """Return the weights of each branch, cut out of a trained cond-softmax."""
        self.net.load_state_dict(weights)
        return {branch: snapshot(net) for branch, net in self._decoupled().items()}

    def decoupled_model(self, weights: Mapping[int, State]) -> DecoupledModel:
        """Return the branches as one model (on the nets of this workshop)."""
        for branch, state in weights.items():
            self.branch_nets[branch].load_state_dict(state)
        return DecoupledModel(self.federation.taxonomy, self.branch_nets).to(self.device)

    # prediction and validation

    def predict_leaves(self, weights: State, indices: Indices) -> Indices:
        """Return the likeliest leaf of H for each image, by the whole model."""
        self.net.load_state_dict(weights)
        found = []
        for images in self._blocks(indices):
            with torch.no_grad():
                log_probs = self.head.node_log_probs(run_in_chunks(self.net, images))
            found.append(predict(log_probs, self.federation.taxonomy))
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def predict_leaves_by_branches(self, weights: Mapping[int, State], indices: Indices) -> Indices:
        """Return the likeliest leaf of H for each image, by the decoupled model."""
        model = self.decoupled_model(weights)
        found = [model.best_leaf(images).leaf.cpu().numpy() for images in self._blocks(indices)]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def validate(self, weights: State) -> float:
        """Return the validation HF of the whole model, under the rule `leaf`."""
        return self.mean_hf(partial(self.predict_leaves, weights))

    def validate_branches(self, weights: Mapping[int, State]) -> float:
        """Return the validation HF of the decoupled model, under the rule `leaf`."""
        return self.mean_hf(partial(self.predict_leaves_by_branches, weights))

    def validate_branch(self, branch: int, weights: State) -> float | None:
        """Return a branch's accuracy over the validation samples whose label lies below it."""
        net = self.branch_nets[branch]
        net.load_state_dict(weights)
        found: list[tuple[float, int]] = []
        for part, _ in self._validation_parts():
            labels = torch.from_numpy(part.labels)
            rows, targets = branch_dataset(self.federation.taxonomy, labels, branch)
            blocks = self._blocks(part.indices[rows.numpy()])
            said = [run_in_chunks(net, images).argmax(1).cpu() for images in blocks]
            if said:
                hits = int((torch.cat(said) == targets).sum())
                found.append((hits / len(targets), len(targets)))
        return weighted_mean(found)

    def mean_hf(self, predicted: Callable[[Indices], Indices]) -> float:
        """Mean HF over everyone's validation samples, as the mean of the clients' means.

        A client without a server's truth compares the projection of the prediction with its own
        label; a prediction below a coarse label is cut back to it (method, sections 8 and 10).
        """
        taxonomy, full = self.federation.taxonomy, self.federation.full_taxonomy
        to_full = taxonomy.numbers_in(full)
        found: list[tuple[float, int]] = []
        for part, known in self._validation_parts():
            leaves = predicted(part.indices)
            if known is not None:
                who = 0 if part.labellers is None else part.labellers
                leaves = taxonomy.nearest(known)[who, leaves].astype(np.int64)
            truth = to_full[part.labels]
            found.append((mean_hf(leaves, truth, taxonomy, full), len(truth)))
        mean = weighted_mean(found)
        assert mean is not None  # a federation without validation images is refused before
        return mean

    def _validation_parts(self) -> Iterator[tuple[LabelledPart, np.ndarray | None]]:
        if self.federation.validation is not None:
            yield self.federation.validation, None
            return
        for client in self.federation.clients:
            if client.validation is not None and len(client.validation):
                yield client.validation, client.known

    def _blocks(self, indices: Indices) -> Iterator[Tensor]:
        for start in range(0, len(indices), self.at_once):
            block = indices[start : start + self.at_once]
            yield self.federation.source.batch(block).to(self.device)


def _with_labellers(targets: Tensor, part: LabelledPart) -> Tensor:
    """Append the labeller to each target [samples, 2] if a client has several."""
    if part.labellers is None:
        return targets
    return torch.stack([targets, torch.from_numpy(part.labellers)], 1)


def _apart(targets: Tensor) -> tuple[Tensor, Tensor]:
    """Split what :func:`_with_labellers` combined; a single labeller has the number 0."""
    if targets.ndim == 1:
        return targets, torch.zeros_like(targets)
    return targets[:, 0], targets[:, 1]

"""Learns how a client's labellers write, by the model it is sent (method, section 11).

Nothing is kept between rounds: the same weights and labels always give the same labellers, in any
process. What is learned stays with the client; only its update shows it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from fedgrain.engines.built_model import BuiltModel
from fedgrain.federated.averaging import State
from fedgrain.federated.federation import Client, Source
from fedgrain.federated.local_training import TrainingData
from fedgrain.heads import Supervised, supervise
from fedgrain.heads.chunks import run_in_chunks
from fedgrain.heads.leaf_softmax import LeafSoftmax
from fedgrain.knowledge.labeller import (
    Evidence,
    LabellerModel,
    children_of,
    inferred_known,
    label_counts,
    labeller_model,
)
from fedgrain.knowledge.labeller_em import fitted, learned

_FULL_SHARE = 0.2  # of the loss that full labels make up at least
_TRUSTING_ROUNDS = 10  # until what is learned about laziness is used in full


class LabelReader:
    """The labels of one client, and what a model makes of them."""

    def __init__(self, model: BuiltModel, source: Source, client: Client) -> None:
        self.model, self.source, self.part = model, source, client.train
        labels, who, count = self.part.labels, self.part.labellers, len(client.known)
        self.known = inferred_known(model.taxonomy, labels, who, count)  # at first
        self.passes = label_counts(model.taxonomy, labels, who, count).astype(np.float64)

    @cached_property
    def coarse(self) -> NDArray[np.int64]:
        """Which samples have a label that leaves the class open."""
        return np.flatnonzero(self.model.taxonomy.child_counts[self.part.labels] > 0)

    def full_weight(self, laziness: float) -> float:
        """Return how much a full label counts; a coarse one counts 1.

        Coarse labels are shared out by the model itself and so hold it where it is. A few full
        labels could not move it. Each stands at most for those that laziness made coarse.
        """
        coarse = len(self.coarse)
        full = len(self.part) - coarse
        even = _FULL_SHARE * coarse / max((1.0 - _FULL_SHARE) * full, 1e-9)
        return min(max(even, 1.0), 1.0 / (1.0 - laziness))

    def first(self) -> Supervised:
        """Return the loss as it is before anything is learned."""
        return self._supervised(labeller_model(self.model.taxonomy, self.known))

    def _supervised(self, labellers: LabellerModel) -> Supervised:
        """Return the loss that reads every label as its labeller writes."""
        writes = [labellers.writes(labeller) for labeller in range(len(labellers.known))]
        return supervise(self.model.head, "learned", writes=writes, terms=self.model.spec.terms)

    def learned(self, weights: State) -> LabellerModel:
        """Return how the labellers write, as the model with these weights sees it."""
        return self._learned(self._logits(weights))

    def loss(self, round_number: int, weights: State) -> Supervised:
        """Return the loss for a round that starts from these weights."""
        return self._supervised(self.learned(weights).with_laziness(trust(round_number)))

    def shared_out(self, round_number: int, weights: State) -> tuple[Supervised, TrainingData]:
        """Return the loss for a round, and every label distributed over the leaves.

        A full label is given a higher :meth:`full_weight` where laziness made full labels few.
        """
        head = self.model.head
        assert isinstance(head, LeafSoftmax)  # the trainer asks no other
        logits = self._logits(weights)
        found = self._learned(logits)
        supervised = self._supervised(found.with_laziness(trust(round_number)))
        labels = torch.from_numpy(self.part.labels)
        positions = head.leaf_position.cpu()[labels].clamp_min(0)
        weight = self.full_weight(self.laziness(found))
        shares = weight * one_hot(positions, len(head.sums.leaves)).float()
        left_open = self.part[self.coarse]
        targets = left_open.with_labellers(torch.from_numpy(left_open.labels))
        if len(self.coarse):
            open_shares = self._shared(supervised, logits, targets)
            shares[torch.from_numpy(self.coarse)] = open_shares
        return supervised, TrainingData(self.source, self.part.indices, shares)

    def _shared(self, supervised: Supervised, logits: Tensor, targets: Tensor) -> Tensor:
        """Return how the labels of these logits are distributed over the leaves."""
        blocks = zip(self.model.split(logits), self.model.split(targets), strict=True)
        return torch.cat([supervised.responsibilities(*block).cpu() for block in blocks])

    def laziness(self, found: LabellerModel) -> float:
        """Return how often the client's labellers write a leaf they know early, over all labels."""
        leaves = self.model.taxonomy.leaves
        lazy = found.lazy[:, leaves]
        images = self.passes[:, leaves] / (1.0 - lazy)  # of leaves that they know, about
        return float((lazy * images).sum() / max(images.sum(), 1.0))

    def at_branch(self, branch: int, weights: State) -> LabellerModel:
        """Return how the labellers write at one branch, as the net of this branch sees it."""
        taxonomy = self.model.taxonomy
        rows = np.flatnonzero(self.part.labels == branch)
        net = self.model.branch_nets[branch]
        net.load_state_dict(weights)
        blocks = self.model.blocks(self.source, self.part.indices[rows])
        outputs = [run_in_chunks(net, images).cpu() for images in blocks]
        children = taxonomy.children(branch).astype(np.int64)
        scores = torch.cat(outputs) if outputs else torch.empty(0, len(children))
        asked = np.zeros_like(self.known)
        asked[:, children] = True
        of_images = np.tile(children, (len(rows), 1))
        evidence = Evidence(self.passes, asked, self._who(rows), of_images, _shares(scores))
        return learned(taxonomy, evidence)

    def _learned(self, logits: Tensor) -> LabellerModel:
        """Estimate the labellers from the logits of the coarse samples."""
        labels = self.part.labels[self.coarse]
        children, found = children_of(self.model.taxonomy, labels), []
        blocks = self.model.split(torch.from_numpy(children))
        for block, columns in zip(self.model.split(logits), blocks, strict=True):
            of_children = self.model.head.node_log_probs(block).gather(1, columns)
            found.append(of_children.masked_fill(columns == 0, -torch.inf).cpu())
        scores = torch.cat(found) if len(labels) else torch.empty(children.shape)
        taxonomy, part = self.model.taxonomy, self.part
        return fitted(taxonomy, part.labels, part.labellers, len(self.known), _shares(scores))

    def _logits(self, weights: State, rows: NDArray[np.int64] | None = None) -> Tensor:
        """Return the model's logits for some samples, or for the coarse ones."""
        net, chosen = self.model.net, self.coarse if rows is None else rows
        net.load_state_dict(weights)
        blocks = self.model.blocks(self.source, self.part.indices[chosen])
        outputs = [run_in_chunks(net, images) for images in blocks]
        return torch.cat(outputs) if outputs else torch.empty(0, self.model.head.num_outputs)

    def _who(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the labellers of some samples; a single labeller has the number 0."""
        who = self.part.labellers
        return np.zeros(len(rows), np.int64) if who is None else who[rows]


def trust(round_number: int) -> float:
    """Return how much of what is learned is used in a round: early rounds believe less in it.

    A model that has learned little cannot say which open images are of known classes.
    """
    return min(1.0, round_number / _TRUSTING_ROUNDS)


def _shares(scores: Tensor) -> NDArray[np.float64]:
    """Return the softmax of the scores [images, children] in float64."""
    return np.asarray(scores.double().softmax(1).numpy())

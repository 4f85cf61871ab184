"""How a label at an internal node is read (method, sections 6 and 11)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgrain.catalogue import check_supervision
from fedgrain.errors import HeadError
from fedgrain.heads.base import Head, at_least_float32, mean_entering
from fedgrain.heads.leaf_softmax import LeafSoftmax
from fedgrain.heads.loss_terms import LossTerms
from fedgrain.heads.projection_tensors import ProjectionTensors
from fedgrain.heads.writing_tensors import CorrespondenceTensors, LabelWeights, WritingTensors
from fedgrain.knowledge.correspondence import Correspondence
from fedgrain.knowledge.projection import project_known
from fedgrain.taxonomy.tree import BoolArray


class Supervised(nn.Module):
    """A head whose loss reads labels in the chosen way; what local training minimises.

    Labels are nodes [batch]; or [batch, 2] if `projection` or `learned` has several labellers: the
    node, and the number of its labeller.
    """

    def __init__(
        self,
        head: Head,
        supervision: str,
        readings: Sequence[ProjectionTensors] | Sequence[LabelWeights],
        terms: LossTerms,
    ) -> None:
        super().__init__()
        self.head = head
        self.supervision = supervision
        self.terms = terms
        self.readings = nn.ModuleList(readings)  # one per labeller; for projection and learned
        self.warns = True  # of labels that stand for no leaf; a run warns once for all clients
        self._warned = False
        self.trained_as: nn.Module | None = None  # `paper`, flat-softmax: scores of one client

    def sample_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each sample [batch]; 0 where the label does not enter."""
        logits, labels = at_least_float32(logits), labels.long()
        losses = self._likelihood_losses(logits, labels)
        if not self.terms:
            return losses
        losses = self.terms.robust(losses)
        entering = self.enters(labels if labels.ndim == 1 else labels[:, 0])
        losses = self.terms.smoothed(self.head, logits, losses, entering)
        if self.terms.ancestors:
            above = self.terms.above_sets(self.head, logits, self.stands_for(labels))
            losses = losses + above * entering
        return losses

    def stands_for(self, labels: Tensor) -> Tensor:
        """Mask [batch, leaves]: the leaves a label stands for."""
        head, labels = self.head, labels.long()
        assert isinstance(head, LeafSoftmax)  # ``supervise`` refuses others
        if self.readings:
            return self._by_labeller(
                lambda _, *of: head.leaf_weights(*of) > -np.inf, labels, labels
            )
        return head.leaf_weights(labels, None) > -np.inf

    def _likelihood_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.supervision == "projection":
            return self._by_labeller(self._projection_losses, logits, labels)
        if self.supervision == "learned":
            return self._by_labeller(self.head.written_losses, logits, labels)
        if self.supervision == "marginal":
            return self.head.marginal_losses(logits, labels)
        if self.trained_as is not None:
            logits = self.trained_as(logits)
        return self.head.sample_losses(logits, labels)

    def responsibilities(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return P(leaf | label) [batch, leaves], the E-step of EM for labels that stand for sets.

        Training on them for a round, instead of on the likelihood itself, keeps a client from
        settling within a few steps on one of the leaves that it cannot distinguish.
        """
        if not isinstance(self.head, LeafSoftmax) or self.supervision == "paper":
            raise HeadError(
                "responsibilities need flat-softmax or ps-softmax under marginal, projection or "
                f"learned, not {self.head.name} under {self.supervision}"
            )
        labels = labels.long()
        if self.supervision == "marginal":
            return self.head.responsibilities(logits, labels, None)
        return self._by_labeller(self.head.responsibilities, logits, labels)

    def shared_loss(self, logits: Tensor, shares: Tensor) -> Tensor:
        """Mean loss over a batch whose labels were shared out over the leaves [batch, leaves]."""
        assert isinstance(self.head, LeafSoftmax)  # it made the shares
        if self.terms.gce:
            losses = self.terms.robust_shares(self.head, logits, shares)
        else:
            losses = self.head.shared_losses(logits, shares)
        if self.terms:
            losses = self.terms.smoothed(self.head, logits, losses, shares.sum(1))
        if self.terms.ancestors:
            losses = losses + self.terms.above_shares(self.head, logits, shares)
        return losses.mean()

    def enters(self, labels: Tensor) -> Tensor:
        """Mask [batch]: the sample enters the loss. All but `paper` use every one."""
        entering = self.head.enters(labels)
        return entering if self.supervision == "paper" else entering.new_ones(entering.shape)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean loss over the samples of the batch that enter it (0 if none)."""
        self.head.check(logits)
        nodes = labels if labels.ndim == 1 else labels[:, 0]
        return mean_entering(self.sample_losses(logits, labels), self.enters(nodes))

    def entered_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean loss over a batch of samples that all enter it: the bits of :meth:`loss`, sooner."""
        self.head.check(logits)
        return self.sample_losses(logits, labels).mean()

    def _by_labeller(
        self,
        read: Callable[[Tensor, Tensor, Any], Tensor],  # logits, labels, one of the readings
        logits: Tensor,
        labels: Tensor,
    ) -> Tensor:
        """Read every label as who wrote it meant it; the result is in order of labels."""
        if labels.ndim == 1:
            return read(logits, labels, self.readings[0])
        nodes, labellers = labels.unbind(1)
        writing = sorted(set(labellers.tolist()))
        groups = [(labellers == number).nonzero()[:, 0] for number in writing]
        parts = [
            read(logits[rows], nodes[rows], self.readings[number])
            for number, rows in zip(writing, groups, strict=True)
        ]
        return torch.cat(parts)[torch.cat(groups).argsort()]

    def _projection_losses(
        self, logits: Tensor, labels: Tensor, projection: ProjectionTensors
    ) -> Tensor:
        self._warn_once(labels, projection)
        return self.head.projection_losses(logits, labels, projection)

    def _warn_once(self, labels: Tensor, projection: ProjectionTensors) -> None:
        if self._warned or not self.warns:
            return
        contradicting = projection.empty[labels]
        if contradicting.any():
            self._warned = True
            node = self.head.taxonomy.ids[int(labels[contradicting][0])]
            warnings.warn(
                f"the label {node!r} stands for no leaf by what its labeller knows: such labels "
                "are read as marginal (shown once)",
                stacklevel=3,
            )


def supervise(
    head: Head,
    supervision: str = "paper",
    *,
    known: Tensor | BoolArray | None = None,
    laziness: float = 0.0,
    writes: Sequence[NDArray[np.float64] | Correspondence] | None = None,
    terms: LossTerms | None = None,
) -> Supervised:
    """Choose how labels are read.

    ``known`` is one client's mask [nodes] over the head's taxonomy, closed upwards, or one mask for
    each of its labellers [labellers, nodes]; `projection` needs it, the others ignore it.
    ``laziness`` eps is only for `projection`: the loss is -log((1 - eps) * projection + eps *
    marginal), for labellers who sometimes stop early. ``writes`` is only for `learned`: T of each
    labeller, [leaves, depths] or as a table of any labels and leaves. ``terms`` are added to the
    loss.
    """
    terms = terms or LossTerms()
    check_supervision(head.name, supervision, HeadError, head.supervisions)
    if terms.ancestors and not isinstance(head, LeafSoftmax):
        raise HeadError(f"terms for ancestors need flat-softmax or ps-softmax, not {head.name}")
    if supervision != "projection":
        if laziness != 0.0:
            raise HeadError(
                f"laziness {laziness} has no meaning for supervision {supervision!r}; "
                "choose projection, or leave laziness out"
            )
        if supervision != "learned":
            return Supervised(head, supervision, (), terms)
        if not writes:
            raise HeadError(
                "supervision 'learned' needs to know how the client writes; give `writes`"
            )
        writing = [
            CorrespondenceTensors(head.taxonomy, own)
            if isinstance(own, Correspondence)
            else WritingTensors(head.taxonomy, np.asarray(own))
            for own in writes
        ]
        return Supervised(head, supervision, writing, terms).to(head.sums.parents.device)
    if known is None:
        raise HeadError(
            "supervision 'projection' needs to know what the client knows; give the mask `known`"
        )
    masks = known.cpu().numpy() if isinstance(known, Tensor) else np.asarray(known)
    projection = project_known(head.taxonomy, np.atleast_2d(masks), HeadError)
    projections = [
        ProjectionTensors(projection, labeller, laziness)
        for labeller in range(len(projection.of_nodes))
    ]
    return Supervised(head, supervision, projections, terms).to(head.sums.parents.device)

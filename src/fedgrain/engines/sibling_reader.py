"""Reads labels of clients who also confuse siblings (method, section 11)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from fedgrain.engines.label_reader import LabelReader, trust
from fedgrain.federated.averaging import State
from fedgrain.federated.local_training import TrainingData
from fedgrain.heads import Supervised, supervise
from fedgrain.heads.leaf_softmax import LeafSoftmax
from fedgrain.knowledge.confusions import meant_counts, with_confusions
from fedgrain.knowledge.labeller import LabellerModel, children_of, gathered
from fedgrain.knowledge.labeller_em import learned

_TURNS = 3  # of learning how labels are written, and which of them are wrong


class SiblingReader(LabelReader):
    """The labels of one client, any of which may be a sibling of what was meant.

    All of a client's annotators are read as one labeller.
    """

    def shared_out(self, round_number: int, weights: State) -> tuple[Supervised, TrainingData]:
        """Return the loss for a round, and every label distributed over the leaves."""
        head, taxonomy, labels = self.model.head, self.model.taxonomy, self.part.labels
        assert isinstance(head, LeafSoftmax)  # a config with another is refused
        logits = self._logits(weights, np.arange(len(labels)))
        probs = [head.leaf_scores(block).softmax(1).cpu() for block in self.model.split(logits)]
        share, found = self.confused(torch.cat(probs).double().numpy())
        usable = found.with_laziness(trust(round_number)).writes(0)
        read = with_confusions(taxonomy, usable, np.unique(labels), share * trust(round_number))
        supervised = supervise(head, "learned", writes=[read], terms=self.model.spec.terms)
        shares = self._shared(supervised, logits, torch.from_numpy(labels))
        full = torch.from_numpy(taxonomy.child_counts[labels] == 0)
        shares[full] *= self.full_weight(self.laziness(found))
        return supervised, TrainingData(self.source, self.part.indices, shares)

    def confused(self, leaf_probs: NDArray[np.float64]) -> tuple[float, LabellerModel]:
        """Return how often siblings are confused, and how the client writes apart from that."""
        taxonomy, labels = self.model.taxonomy, self.part.labels
        children = children_of(taxonomy, labels[self.coarse])
        first, end = taxonomy.leaf_ranges
        sums = np.pad(leaf_probs[self.coarse].cumsum(axis=1), ((0, 0), (1, 0)))
        rows = np.arange(len(children))[:, None]
        below = np.where(children > 0, sums[rows, end[children]] - sums[rows, first[children]], 0.0)
        below /= np.maximum(below.sum(axis=1, keepdims=True), 1e-300)
        evidence = gathered(taxonomy, labels, None, 1, below)
        found, share = learned(taxonomy, evidence), 0.0
        for _ in range(_TURNS):
            share, counts = meant_counts(taxonomy, found.writes(0), labels, leaf_probs)
            found = learned(taxonomy, replace(evidence, passes=taxonomy.sums_below(counts[None])))
        return share, found

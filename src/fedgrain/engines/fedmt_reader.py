"""Reads labels as FedMT does, with an estimated correspondence (arXiv 2210.02042)."""

from __future__ import annotations

import torch
from torch.nn.functional import one_hot

from fedgrain.engines.label_reader import LabelReader
from fedgrain.federated.averaging import State
from fedgrain.federated.local_training import TrainingData
from fedgrain.heads import Supervised, supervise
from fedgrain.heads.leaf_softmax import LeafSoftmax
from fedgrain.knowledge.correspondence import correspondence

_WARM_UP = 5  # rounds on full labels alone, before the model is asked
_CONFIDENT = 0.5  # probability of a prediction that counts


class FedMTReader(LabelReader):
    """The labels of one client, read by a table that is estimated anew in each round.

    How long to train before the table is estimated, and how sure a prediction must be to count,
    are our choices; a site has one table for all its annotators.
    """

    def shared_out(self, round_number: int, weights: State) -> tuple[Supervised, TrainingData]:
        """Return the loss for a round, and every label distributed over the leaves."""
        head = self.model.head
        assert isinstance(head, LeafSoftmax)  # a config with another is refused
        leaves, labels = len(head.sums.leaves), torch.from_numpy(self.part.labels)
        positions = head.leaf_position.cpu()[labels]
        shares = one_hot(positions.clamp_min(0), leaves).float()
        full = (positions >= 0).numpy()
        if full.all() or (round_number <= _WARM_UP and full.any()):
            data = TrainingData(self.source, self.part.indices[full], shares[full])
            return self.first(), data
        logits = self._logits(weights)
        blocks = [head.leaf_scores(block).softmax(1).max(1) for block in self.model.split(logits)]
        sure = torch.cat([block.values for block in blocks]).cpu() >= _CONFIDENT
        predicted = torch.cat([block.indices for block in blocks]).cpu().numpy()
        coarse = self.part.labels[self.coarse]
        table = correspondence(coarse, predicted, leaves, sure.numpy())
        supervised = supervise(head, "learned", writes=[table], terms=self.model.spec.terms)
        found = self._shared(supervised, logits, torch.from_numpy(coarse))
        shares[torch.from_numpy(self.coarse)] = found
        return supervised, TrainingData(self.source, self.part.indices, shares)

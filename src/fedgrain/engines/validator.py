"""How good a model is on the validation images of a federation (method, sections 8 and 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import torch

from fedgrain.engines.built_model import BuiltModel
from fedgrain.federated.averaging import State
from fedgrain.federated.federation import Federation, Indices, LabelledPart
from fedgrain.heads import branch_dataset
from fedgrain.heads.chunks import run_in_chunks
from fedgrain.knowledge.projection import project_known
from fedgrain.scoring.rules import predict
from fedgrain.scoring.validation_score import (
    ValidationScore,
    combined,
    validation_score,
    weighted_mean,
)


class Validator:
    """Predicts and scores validation images, the server's or the clients' own."""

    def __init__(self, federation: Federation, model: BuiltModel) -> None:
        self.federation, self.model = federation, model

    def predict_leaves(self, weights: State, indices: Indices) -> Indices:
        """Return the likeliest leaf of H for each image, by the whole model."""
        self.model.net.load_state_dict(weights)
        found = []
        for images in self.model.blocks(self.federation.source, indices):
            with torch.no_grad():
                log_probs = self.model.head.node_log_probs(run_in_chunks(self.model.net, images))
            found.append(predict(log_probs, self.federation.taxonomy))
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def predict_leaves_by_branches(self, weights: Mapping[int, State], indices: Indices) -> Indices:
        """Return the likeliest leaf of H for each image, by the decoupled model."""
        model = self.model.decoupled_model(weights)
        blocks = self.model.blocks(self.federation.source, indices)
        found = [model.best_leaf(images).leaf.cpu().numpy() for images in blocks]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def logits(self, models: Mapping[int | None, State], indices: Indices) -> torch.Tensor:
        """Return what the whole model, or the decoupled one, says of images, for calibration."""
        blocks = self.model.blocks(self.federation.source, indices)
        whole = models.get(None)
        if whole is not None:
            self.model.net.load_state_dict(whole)
            return torch.cat([run_in_chunks(self.model.net, images).cpu() for images in blocks])
        weights = {branch: state for branch, state in models.items() if branch is not None}
        model = self.model.decoupled_model(weights)
        return torch.cat([model.conditionals(images).cpu() for images in blocks])

    def validate(self, weights: State) -> ValidationScore:
        """Return the validation score of the whole model, under the rule `leaf`."""
        return self.score(partial(self.predict_leaves, weights))

    def validate_branches(self, weights: Mapping[int, State]) -> ValidationScore:
        """Return the validation score of the decoupled model, under the rule `leaf`."""
        return self.score(partial(self.predict_leaves_by_branches, weights))

    def validate_branch(self, branch: int, weights: State) -> float | None:
        """Return a branch's accuracy over the validation samples whose label lies below it."""
        net = self.model.branch_nets[branch]
        net.load_state_dict(weights)
        found: list[tuple[float, int]] = []
        for part, _ in self._validation_parts():
            labels = torch.from_numpy(part.labels)
            rows, targets = branch_dataset(self.federation.taxonomy, labels, branch)
            blocks = self.model.blocks(self.federation.source, part.indices[rows.numpy()])
            said = [run_in_chunks(net, images).argmax(1).cpu() for images in blocks]
            if said:
                hits = int((torch.cat(said) == targets).sum())
                found.append((hits / len(targets), len(targets)))
        return weighted_mean(found)

    def score(self, predicted: Callable[[Indices], Indices]) -> ValidationScore:
        """Score the predictions for everyone's validation samples; clients' means are combined.

        A client without a server's truth compares the projection of the prediction with its own
        label; a prediction below a coarse label is cut back to it (method, sections 8 and 10).
        """
        taxonomy, full = self.federation.taxonomy, self.federation.full_taxonomy
        found: list[ValidationScore] = []
        for part, known in self._validation_parts():
            leaves = predicted(part.indices)
            if known is not None:
                who = 0 if part.labellers is None else part.labellers
                leaves = project_known(taxonomy, known).of_nodes[who, leaves].astype(np.int64)
            found.append(validation_score(leaves, part.labels, taxonomy, full))
        mean = combined(found)
        assert mean is not None  # a federation without validation images is refused before
        return mean

    def _validation_parts(self) -> Iterator[tuple[LabelledPart, np.ndarray | None]]:
        if self.federation.validation is not None:
            yield self.federation.validation, None
            return
        for client in self.federation.clients:
            if client.validation is not None and len(client.validation):
                yield client.validation, client.known

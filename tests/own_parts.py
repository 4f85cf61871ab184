"""A user's own parts, named module:callable by the tests, in this process and in others.

``FEDGRAIN_TEST_KILL_AT_STEP`` ends the process without warning at that step of training.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from fedgrain.data import LabelledImages
from fedgrain.data.glyphs import load_glyphs
from fedgrain.federated.algorithm import FinalModel
from fedgrain.federated.engine import Engine
from fedgrain.federated.fedavg import FedAvg, FedAvgState
from fedgrain.heads import CondSoftmax
from fedgrain.knowledge import Knowledge, known_paths_only
from fedgrain.taxonomy import Taxonomy

STEPS = 0


@cache
def few_glyphs() -> LabelledImages:
    """Eight training images of each of 32 classes, and two to test on."""
    return load_glyphs(train=256, test=64)


def hostile_names() -> LabelledImages:
    """Glyphs whose classes have names that steer a terminal and begin lines."""
    data = few_glyphs()
    names = tuple(f"{name}\n\x1b[31m" for name in data.taxonomy.names)
    tree = data.taxonomy
    return replace(data, taxonomy=Taxonomy(tree.ids, tree.parents, names))


def no_images() -> LabelledImages:
    return few_glyphs().subset(np.empty(0, np.int64))


def only_to_test() -> LabelledImages:
    return few_glyphs().of_split("test").subset(np.arange(8))


PEOPLE = ("expert", "novice", "guest")


@cache
def annotated_glyphs() -> LabelledImages:
    """Two sites. In oslo an expert names the classes, a novice what is above them; in rome nobody
    is named. A guest wrote the labels of the validation images.
    """
    data = few_glyphs()
    number = np.arange(len(data), dtype=np.int32)
    clients, people = number // 4 % 2, number // 2 % 2
    people[clients == 1] = -1
    splits = data.splits.copy()
    splits[:40], people[:40] = 2, PEOPLE.index("guest")
    labels = np.where(people == 1, data.taxonomy.parents[data.labels], data.labels)
    return replace(
        data, labels=labels.astype(np.int32), splits=splits,
        split_names=("train", "test", "validation"), clients=clients,
        client_names=("oslo", "rome"), annotators=people, annotator_names=PEOPLE,
    )  # fmt: skip


class SmallNet(nn.Module):
    """Few weights, so that a round takes milliseconds; with a BatchNorm, and a dropout."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 4, 5, stride=3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.1),
        )
        self.head = nn.Linear(400, outputs)

    def forward(self, images: Tensor) -> Tensor:
        global STEPS
        if self.training:
            STEPS += 1
            if os.environ.get("FEDGRAIN_TEST_KILL_AT_STEP") == str(STEPS):
                os.kill(os.getpid(), signal.SIGKILL)
        return self.head(self.features(images))


class LinearNet(nn.Module):
    """One layer: its gradient can be written by hand."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.AvgPool2d(4), nn.Flatten())
        self.head = nn.Linear(192, outputs)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))


class FunctionalDropoutNet(LinearNet):
    """A net that drops out without a module: it draws from the global state."""

    def forward(self, images: Tensor) -> Tensor:
        return self.head(nn.functional.dropout(self.features(images), 0.5, self.training))


class NoHead(nn.Module):
    """A net that cannot be decoupled: what makes its outputs is not the last layer of a head."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(192, outputs))
        self.head = nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))


class OwnHead(CondSoftmax):
    """The user's own head."""

    name = "own"

    def sample_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        return 2 * super().sample_losses(logits, labels)


class LoudHead(CondSoftmax):
    """Its probabilities are too large: the root has more than 1."""

    def node_log_probs(self, logits: Tensor) -> Tensor:
        return super().node_log_probs(logits) + 0.5


class ExplodingHead(CondSoftmax):
    """A loss that is not a number for one label alone, so for those who write it.

    Only for logits of a net: on those it is tried with before training it is well.
    """

    name = "exploding"

    def sample_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        losses = super().sample_losses(logits, labels)
        if logits.grad_fn is None:
            return losses
        return torch.where(labels == int(self.taxonomy.leaves[0]), torch.nan, losses)


def own_knowledge(taxonomy: Taxonomy, clients: int, alpha: float, seed: int) -> Knowledge:
    return known_paths_only(taxonomy, clients, alpha, seed)


@cache
def some_glyphs() -> LabelledImages:
    """Enough of them for a model to learn something in seconds."""
    return load_glyphs(train=1600, test=400)


class TinyNet(nn.Module):
    """For images of 16 x 16 pixels."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.AvgPool2d(8), nn.Flatten())
        self.head = nn.Linear(12, outputs)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))


class ForLargerImages(TinyNet):
    """Its head does not fit the images of the tests."""


class OneOutput(SmallNet):
    """Does not heed how many outputs are asked for."""

    def __init__(self, outputs: int) -> None:
        super().__init__(1)


class LastWeights(FedAvg):
    """An algorithm of the user's own: FedAvg that keeps its last weights, not its best."""

    name = "own_parts:LastWeights"

    def final_model(self, state: FedAvgState, engine: Engine) -> FinalModel:
        return FinalModel(state.weights, engine.validate(state.weights), rounds=state.round)

"""What a model makes of labels: who knows what, who stops early, which labels look wrong.

It is made where the labels are, and shown only there (method, section 11).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fedgrain.federated import Client
from fedgrain.images.images import LabelledImages
from fedgrain.knowledge.labeller import LabellerModel, children_of, gathered
from fedgrain.knowledge.labeller_em import fitted, stop_counts, stop_shares
from fedgrain.models.trained_model import Images, TrainedModel
from fedgrain.taxonomy.tree import Taxonomy

_NOT_NAMED = "(not named)"
_UNLIKELY = 0.05  # a label this improbable looks wrong

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Wrote:
    """The labels of one site, and who wrote each."""

    images: Ints  # [labels], numbers of images
    labels: Ints  # [labels], nodes of the model's taxonomy
    names: tuple[str, ...]  # of the labellers
    labellers: Ints | None = None  # [labels], into names; None: one labeller

    @property
    def who(self) -> Ints:
        """The labeller of each label."""
        return np.zeros_like(self.labels) if self.labellers is None else self.labellers

    def some(self, rows: Ints) -> Wrote:
        """Return some of the labels."""
        who = None if self.labellers is None else self.labellers[rows]
        return Wrote(self.images[rows], self.labels[rows], self.names, who)


@dataclass(frozen=True)
class Doubt:
    """A label that the model does not believe."""

    image: int
    label: int
    probability: float  # of the label
    seems: int  # the likeliest leaf


@dataclass(frozen=True, eq=False)
class LabellerFinding:
    """What is found about one labeller."""

    name: str
    labels: int
    in_full: int  # labels at leaves
    known: tuple[int, ...]  # the leaves it seems to know
    early: dict[int, float]  # by depth: how often it stops there although it knows what is below
    doubts: tuple[Doubt, ...]  # the least probable first
    knows: NDArray[np.float64]  # [nodes], how likely it knows each


def wrote_by_site(model: TrainedModel, data: LabelledImages) -> list[Wrote]:
    """Return the labels of the training images of each site, as nodes of the model's taxonomy."""
    nodes = data.taxonomy.nearest_in(model.taxonomy)[data.labels].astype(np.int64)
    train = data.split_indices("train") if "train" in data.split_names else np.arange(len(data))
    names = (data.name,) if data.clients is None else data.client_names
    owners = np.zeros(len(data), np.int32) if data.clients is None else data.clients
    found = []
    for number, name in enumerate(names):
        images = train[owners[train] == number]
        if data.annotators is None or not len(images):
            found.append(Wrote(images, nodes[images], (name,)))
            continue
        people, who = np.unique(data.annotators[images], return_inverse=True)
        named = [data.annotator_names[p] if p >= 0 else _NOT_NAMED for p in people.tolist()]
        labellers = tuple(f"{name}, annotator {person}" for person in named)
        found.append(Wrote(images, nodes[images], labellers, who.astype(np.int64)))
    return found


def wrote_as_client(client: Client, data: LabelledImages) -> Wrote:
    """Return the labels a client of a run trains on; annotators are named as the data names them.

    A labeller of the run that wrote no label to train on has no name here.
    """
    part = client.train
    if part.labellers is None or data.annotators is None:
        return Wrote(part.indices, part.labels, (client.name,))
    _, first, who = np.unique(part.labellers, return_index=True, return_inverse=True)
    people = [*data.annotator_names, _NOT_NAMED]
    named = [people[data.annotators[image]] for image in part.indices[first].tolist()]
    names = tuple(f"{client.name}, annotator {person}" for person in named)
    return Wrote(part.indices, part.labels, names, who.astype(np.int64))


def check_labels(model: TrainedModel, images: Images, site: Wrote) -> list[LabellerFinding]:
    """Return what the model finds about each labeller of a site."""
    tree = model.taxonomy
    children = children_of(tree, site.labels[tree.child_counts[site.labels] > 0])
    probabilities, own, seems, done = [], [], [], 0
    for numbers, table in zip(
        model.blocks(np.arange(len(site.labels))),
        model.log_prob_blocks(images, site.images),
        strict=True,
    ):
        labels = torch.from_numpy(site.labels[numbers])
        table = table.cpu()[: len(labels)]
        own.append(table.gather(1, labels[:, None])[:, 0].exp().numpy())
        seems.append(tree.leaves[table.numpy()[:, tree.leaves].argmax(axis=1)])
        rows = table[torch.from_numpy(tree.child_counts[labels.numpy()] > 0)]
        columns = torch.from_numpy(children[done : done + len(rows)])
        scores = rows.gather(1, columns).masked_fill(columns == 0, -torch.inf).double()
        probabilities.append(scores.softmax(1).numpy())
        done += len(rows)
    evidence = gathered(
        tree, site.labels, site.labellers, len(site.names), np.concatenate(probabilities)
    )
    found = fitted(
        tree, site.labels, site.labellers, len(site.names), np.concatenate(probabilities)
    )
    stopped = stop_counts(found, evidence, stop_shares(found, evidence))
    doubted = _doubts(site, np.concatenate(own), np.concatenate(seems), tree)
    return [
        LabellerFinding(
            name,
            int((site.who == number).sum()),
            int((tree.child_counts[site.labels[site.who == number]] == 0).sum()),
            tuple(tree.leaves[found.known[number, tree.leaves]].tolist()),
            _early(found, stopped[number], evidence.passes[number], number),
            tuple(doubt for doubt, who in doubted if who == number),
            found.knows[number],
        )
        for number, name in enumerate(site.names)
    ]


def _early(
    found: LabellerModel,
    stopped: NDArray[np.float64],
    passes: NDArray[np.float64],
    labeller: int,
) -> dict[int, float]:
    """Return how often a labeller stops at each depth before what it knows."""
    depth, knows = found.taxonomy.depth, found.knows[labeller]
    shares = {}
    for level in range(int(depth.max())):
        below = depth == level + 1
        early = float((knows * stopped)[below].sum())
        labels = early + float((knows * passes)[below].sum())
        if labels >= 1.0:
            shares[level] = early / labels
    return shares


def _doubts(
    site: Wrote, own: NDArray[np.float32], seems: NDArray[np.int32], tree: Taxonomy
) -> list[tuple[Doubt, int]]:
    """Return the labels that look wrong, the least probable first, with their labellers.

    A label that holds the likeliest leaf does not look wrong, however unsure the model is.
    """
    order = np.argsort(own, kind="stable")
    wrong = (own < _UNLIKELY) & (tree.lca(seems, site.labels) != site.labels)
    chosen = order[wrong[order]].tolist()
    return [
        (
            Doubt(int(site.images[i]), int(site.labels[i]), float(own[i]), int(seems[i])),
            int(site.who[i]),
        )
        for i in chosen
    ]

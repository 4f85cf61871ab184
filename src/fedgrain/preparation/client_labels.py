"""The clients of a run with the labels they write, and what they hold out to validate."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from fedgrain.config.config import Config
from fedgrain.data import LabelledImages, split_validation
from fedgrain.data.model_labels import given_by_people
from fedgrain.federated import Client, LabelledPart
from fedgrain.knowledge import Knowledge, project, project_known
from fedgrain.preparation.label_faults import with_faults
from fedgrain.preparation.labellers import Labellers, labellers
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy import Taxonomy

Indices = NDArray[np.int64]


def labelled_clients(
    config: Config,
    data: LabelledImages,
    taxonomy: Taxonomy,
    parts: list[Indices],
    knowledge: Knowledge,
) -> tuple[Client, ...]:
    """Return the clients with their labels: the deepest node each knows, or what it really wrote.

    Labels are real where a manifest names their clients and no generator decides who knows what.
    """
    nodes = data.taxonomy.nearest_in(taxonomy)[data.labels]  # [images]
    written = None if config.real_labels else project(taxonomy, knowledge).of_nodes
    names = data.client_names if config.partition == "manifest" else knowledge.client_names
    people = labellers(knowledge, data, taxonomy)

    def labelled(number: int, images: Indices) -> LabelledPart:
        wrote = nodes[images] if written is None else written[number, nodes[images]]
        labels: Indices = wrote.astype(np.int64)
        labels = with_faults(config, taxonomy, labels, number)
        return people[number].part(data, images, labels)

    clients = []
    for number, part in enumerate(parts):
        train, own = labelled(number, part), None
        if config.validation == "clients" and _has_validation(config, data):
            own = labelled(number, np.flatnonzero(_validation_owners(data) == number))
        elif config.validation == "clients":
            by_people = given_by_people(data, part, f"the client {names[number]}")
            train, own = _held_out(config, train, by_people, number)
        known = people[number].known
        if config.infer_knowledge and len(train):
            nobody = np.zeros(len(train), np.int64)
            known = Knowledge.from_labels(taxonomy, train.labels, nobody).known
        clients.append(Client(names[number], train, known, own))
    if config.supervision == "projection":
        _warn_of_contradictions(config, taxonomy, clients)
    if config.real_labels:
        _warn_of_unknown_labels(config, taxonomy, clients, people)
    elif config.dataset == "folder":
        _warn_of_replaced_labels(config, nodes, clients)
    return tuple(clients)


def _warn_of_unknown_labels(
    config: Config, taxonomy: Taxonomy, clients: list[Client], people: list[Labellers]
) -> None:
    """Warn of labels that their labeller does not know according to the knowledge file."""
    if config.knowledge == "inferred":  # these are rare labels, fewer than min_count
        return
    found = []
    for client, own in zip(clients, people, strict=True):
        labels, who = client.train.labels, client.train.labellers
        wrote = np.stack([np.zeros_like(labels) if who is None else who, labels])
        pairs, counts = np.unique(wrote, axis=1, return_counts=True)
        found += [
            f"{own.names[labeller]} wrote {taxonomy.ids[label]!r} {count} times"
            for (labeller, label), count in zip(pairs.T, counts, strict=True)
            if not client.known[labeller, label]
        ]
    if found:
        more = f" (and {len(found) - 3} more such labels)" if len(found) > 3 else ""
        warnings.warn(
            f"{config.knowledge}: {', '.join(found[:3])}{more}, but its entry does not say that it "
            "knows that; the labels are kept: add the class to the entry, or correct the labels",
            stacklevel=2,
        )


def _warn_of_contradictions(config: Config, taxonomy: Taxonomy, clients: list[Client]) -> None:
    """Warn once of labels that stand for no leaf by what their labellers know."""
    found: Counter[str] = Counter()
    labels = 0
    for client in clients:
        makes_sense = project_known(taxonomy, client.known).written
        who = 0 if client.train.labellers is None else client.train.labellers
        wrong = ~makes_sense[who, client.train.labels]
        if config.knowledge_file is not None:  # of unknown labels there is a warning of its own
            wrong &= client.known[who, client.train.labels]
        found[client.name] = int(wrong.sum())
        labels += len(client.train)
    if not found.total():
        return
    some = ", ".join(f"{name} {count}" for name, count in found.most_common(3) if count)
    more = sum(count > 0 for count in found.values()) - 3
    inferred = config.knowledge == "inferred"
    warnings.warn(
        f"{found.total()} of {labels} labels ({some}{f', {more} more clients' * (more > 0)}) "
        f"contradict what {'was inferred that ' * inferred}their clients know: a client that knows "
        "all classes below a node, or not the node itself, would not write it; they are read as "
        "marginal: "
        + (
            "give what clients know as a file (--knowledge FILE.json), or choose --supervision "
            "marginal, or another --min-count"
            if inferred
            else "correct the labels or the file, or choose --supervision marginal"
        ),
        stacklevel=2,
    )


def _warn_of_replaced_labels(
    config: Config, nodes: NDArray[np.int32], clients: list[Client]
) -> None:
    """Warn that a generator makes labels coarser than those the user gave."""
    replaced = sum(
        int((client.train.labels != nodes[client.train.indices]).sum()) for client in clients
    )
    if replaced:
        warnings.warn(
            f"{replaced} labels are made coarser, for a simulation of clients that know less "
            f"(knowledge {config.knowledge}, alpha {config.alpha}); --knowledge inferred trains "
            "on the labels as they are",
            stacklevel=2,
        )


def _has_validation(config: Config, data: LabelledImages) -> bool:
    """Whether the manifest has validation images of the clients."""
    by_manifest = config.partition == "manifest" and data.clients is not None
    return by_manifest and bool(data.split_counts.get("validation"))


def _validation_owners(data: LabelledImages) -> Indices:
    """Return the client of every validation image, and -1 for other images."""
    assert data.clients is not None
    validating = data.splits == data.split_names.index("validation")
    return np.where(validating, data.clients, -1).astype(np.int64)


def _held_out(
    config: Config, part: LabelledPart, by_people: NDArray[np.bool_], client: int
) -> tuple[LabelledPart, LabelledPart]:
    """Split a client's own images; one without a label by people stays in training.

    So does one whose label no other has.
    """
    counts = np.bincount(part.labels[by_people], minlength=int(part.labels.max(initial=0)) + 1)
    several = np.flatnonzero(by_people & (counts[part.labels] > 1))
    if not len(several):
        return part, part[np.zeros(len(part), np.bool_)]
    seed = int(numpy_generator(config.seed, "client validation", client).integers(2**63 - 1))
    _, chosen = split_validation(part.labels[several], config.validation_share, seed=seed)
    own = np.zeros(len(part), dtype=np.bool_)
    own[several[chosen]] = True
    return part[~own], part[own]

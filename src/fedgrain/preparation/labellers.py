"""Who wrote which label: clients, or their annotators where the data distinguishes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgrain.data import LabelledImages
from fedgrain.errors import KnowledgeError
from fedgrain.federated import LabelledPart
from fedgrain.knowledge import Knowledge
from fedgrain.taxonomy import Taxonomy

Indices = NDArray[np.int64]

NOT_NAMED = "(not named)"  # the annotator of labels for which the manifest names none


@dataclass(frozen=True, eq=False)
class Labellers:
    """The labellers of one client: what each knows of H, and which annotator each is."""

    names: tuple[str, ...]
    known: NDArray[np.bool_]  # [labellers, nodes of H]
    numbers: Indices | None = None  # [annotators of the data and the unnamed]; None: one labeller

    def part(self, data: LabelledImages, images: Indices, labels: Indices) -> LabelledPart:
        """Return some of the client's images with their labels and who wrote them."""
        if self.numbers is None:
            return LabelledPart(images, labels)
        assert data.annotators is not None  # as the knowledge tells them apart
        return LabelledPart(images, labels, self.numbers[data.annotators[images]])


def labellers(knowledge: Knowledge, data: LabelledImages, taxonomy: Taxonomy) -> list[Labellers]:
    """Return the labellers of every client.

    An annotator without an entry, for example one of validation images only, comes last in its
    client and is assumed to know everything the client's other annotators know together.
    """
    known, row_names, found = knowledge.on(taxonomy), knowledge.row_names, []
    for client, client_name in enumerate(knowledge.client_names):
        rows = knowledge.rows_of(client)
        own, names = known[rows], tuple(row_names[row] for row in rows)
        if knowledge.annotators is None:
            found.append(Labellers(names, own))
            continue
        place = {knowledge.annotators[row]: number for number, row in enumerate(rows)}
        numbers = np.array([place.get(name, len(rows)) for name in _names(data)], np.int64)
        everything = np.concatenate([own, np.any(own, axis=0, keepdims=True)])
        found.append(Labellers((*names, f"{client_name}, someone else"), everything, numbers))
    return found


def inferred(
    data: LabelledImages, parts: list[Indices], client_names: tuple[str, ...], min_count: int | None
) -> Knowledge:
    """Infer what the clients, or their annotators, know from the labels they wrote.

    ``parts`` are the clients' training images. A client without any knows only the root.
    """
    images = np.concatenate(parts)
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    people = None if data.annotators is None else np.array(_names(data))[data.annotators[images]]
    found = Knowledge.from_labels(data.taxonomy, data.labels[images], owners, people, min_count)
    present = np.unique(owners)
    absent = np.setdiff1d(np.arange(len(parts)), present)
    nothing = np.zeros((len(absent), len(data.taxonomy)), dtype=np.bool_)
    nothing[:, 0] = True
    rows = np.concatenate([present[found.clients_of_rows], absent])
    order = np.argsort(rows, kind="stable")
    known = np.concatenate([found.known, nothing])[order]
    annotators = None
    if found.annotators is not None:
        everyone = [*found.annotators, *[NOT_NAMED] * len(absent)]
        annotators = tuple(everyone[row] for row in order)
    return Knowledge(data.taxonomy, known, client_names, rows[order].astype(np.int32), annotators)


def in_order_of_manifest(knowledge: Knowledge, data: LabelledImages, file: str) -> Knowledge:
    """Return the knowledge of the manifest's clients, in its order; other entries are ignored.

    Annotators are kept apart if the file does so and the manifest names them.
    """
    names, annotators = data.client_names, knowledge.annotators
    for name in names:
        if name not in knowledge.client_names:
            raise KnowledgeError(
                f"{file}: there is no client {name!r}, only "
                f"{', '.join(knowledge.client_names)}; give an entry for every client of the "
                "manifest"
            )
    of_clients = [knowledge.rows_of(knowledge.client_names.index(name)) for name in names]
    rows = np.concatenate(of_clients)
    owners = np.repeat(np.arange(len(names), dtype=np.int32), [len(own) for own in of_clients])
    people = None if annotators is None else tuple(annotators[row] for row in rows)
    ordered = Knowledge(knowledge.taxonomy, knowledge.known[rows], names, owners, people)
    if people is not None:
        _check_annotators(ordered, data, file)
    return ordered


def _check_annotators(knowledge: Knowledge, data: LabelledImages, file: str) -> None:
    """Refuse annotators that do not match those of the manifest."""
    if data.annotators is None or data.clients is None:
        raise KnowledgeError(
            f"{file}: it has entries per annotator, but the manifest does not name annotators; "
            "add the column annotator to it, or give one entry per client"
        )
    training = data.splits == data.split_names.index("train")
    named = training & (data.annotators >= 0) & (data.clients >= 0)
    for client, person in np.unique(np.stack([data.clients, data.annotators])[:, named], axis=1).T:
        name, entries = data.annotator_names[person], knowledge.rows_of(int(client))
        if name not in [(knowledge.annotators or ())[row] for row in entries]:
            raise KnowledgeError(
                f"{file}: there is no annotator {name!r} of client "
                f"{data.client_names[client]!r}, who wrote labels in the manifest; give an entry"
            )


def _names(data: LabelledImages) -> list[str]:
    """Return the names of all annotators; the unnamed one is last, so index -1 finds it."""
    return [*data.annotator_names, NOT_NAMED]

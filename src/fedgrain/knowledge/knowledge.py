"""What each client knows of the full taxonomy, as a plain object (method, sections 1 and 5)."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import KnowledgeError, TaxonomyError
from fedgrain.knowledge import knowledge_file
from fedgrain.knowledge.inference import infer
from fedgrain.knowledge.known_nodes import check_known_nodes
from fedgrain.taxonomy.tree import Taxonomy
from fedgrain.text import counted

IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The known nodes of H_full per client: the root, and with a node all its ancestors.

    A row of ``known`` is a client; where knowledge is given per annotator, a row is one annotator
    and ``row_clients`` has its client.

    >>> tree = Taxonomy.from_edges([("animal", "bird"), ("animal", "cat"), ("bird", "kite")])
    >>> Knowledge(tree, np.array([[True, True, False, True]]), ("museum",)).known_ids(0)
    ['animal', 'bird', 'cat']
    """

    taxonomy: Taxonomy  # H_full
    known: BoolArray  # [rows, nodes]
    client_names: tuple[str, ...]  # [clients]
    row_clients: IntArray | None = None  # [rows], number of the client; None: one row per client
    annotators: tuple[str, ...] | None = None  # [rows], when rows are annotators

    def __post_init__(self) -> None:
        known = np.array(self.known, dtype=np.bool_)
        names = tuple(self.client_names)
        rows = np.arange(len(names)) if self.row_clients is None else self.row_clients
        rows = np.array(rows, dtype=np.int32)
        for array in (known, rows):
            array.flags.writeable = False
        object.__setattr__(self, "known", known)
        object.__setattr__(self, "client_names", names)
        object.__setattr__(self, "row_clients", rows)
        self._check_rows(rows)
        check_known_nodes(self.taxonomy, self.known, KnowledgeError, self.row_names)

    def _check_rows(self, rows: IntArray) -> None:
        names, people = self.client_names, self.annotators
        if self.known.shape != (len(rows), len(self.taxonomy)):
            raise KnowledgeError(
                f"the known nodes have shape {self.known.shape}, but {len(rows)} rows of "
                f"{len(self.taxonomy)} nodes are needed"
            )
        if sorted(set(rows.tolist())) != list(range(len(names))):
            raise KnowledgeError(f"row_clients must use every number below {len(names)}, no other")
        if people is None and len(rows) != len(names):
            raise KnowledgeError("several rows of one client need the names of their annotators")
        if people is not None and len(people) != len(rows):
            raise KnowledgeError(
                f"{len(people)} annotators are named, but there are {len(rows)} rows"
            )
        for named in (names, self.row_names):
            name, count = Counter(named).most_common(1)[0] if named else ("", 0)
            if count > 1:
                raise KnowledgeError(
                    f"{count} clients or annotators are named {name!r}; rename one"
                )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Knowledge):
            return NotImplemented
        return (
            self.taxonomy == other.taxonomy
            and self.client_names == other.client_names
            and self.annotators == other.annotators
            and np.array_equal(self.clients_of_rows, other.clients_of_rows)
            and np.array_equal(self.known, other.known)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def clients_of_rows(self) -> IntArray:
        """The client's number per row of ``known``."""
        assert self.row_clients is not None  # set on construction
        return self.row_clients

    @property
    def row_names(self) -> tuple[str, ...]:
        """A name per row: the client's, with the annotator's where rows are annotators."""
        clients = [self.client_names[client] for client in self.clients_of_rows]
        if self.annotators is None:
            return tuple(clients)
        pairs = zip(clients, self.annotators, strict=True)
        return tuple(f"{client}, annotator {annotator}" for client, annotator in pairs)

    def rows_of(self, client: int) -> IntArray:
        """Return the rows that belong to a client: one, or one per annotator."""
        return np.flatnonzero(self.clients_of_rows == client).astype(np.int32)

    def known_ids(self, row: int) -> list[str]:
        """Return the ids of the nodes a row knows, parents first."""
        return [self.taxonomy.ids[node] for node in np.flatnonzero(self.known[row])]

    def on(self, coarse: Taxonomy) -> BoolArray:
        """Return the known nodes of a coarsened tree: [rows, coarse nodes]."""
        try:
            numbers = coarse.numbers_in(self.taxonomy)
        except TaxonomyError as error:
            raise KnowledgeError(str(error)) from None
        kept = self.taxonomy.is_ancestor(numbers[coarse.parents[1:]], numbers[1:])
        if not np.all(kept):
            child = coarse.ids[1 + int(np.argmin(kept))]
            raise KnowledgeError(
                f"the parent of {child!r} in the coarsened taxonomy is not above it in the full "
                "one; coarsen the taxonomy that the knowledge is about"
            )
        return self.known[:, numbers]

    # -- files ------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the ids of the known nodes per client (and annotator) as JSON."""
        entries: list[dict[str, Any]] = []
        for client, name in enumerate(self.client_names):
            rows = self.rows_of(client)
            if self.annotators is None:
                entries.append({"name": name, "known": self.known_ids(int(rows[0]))})
            else:
                named = [(self.annotators[row], self.known_ids(row)) for row in rows.tolist()]
                people = [{"name": annotator, "known": ids} for annotator, ids in named]
                entries.append({"name": name, "annotators": people})
        knowledge_file.write(path, entries)

    @classmethod
    def load(cls, path: str | Path, taxonomy: Taxonomy) -> Knowledge:
        """Read and check a file of :meth:`save`, or one written by hand."""
        rows, names, annotators = knowledge_file.read(path)
        known = np.zeros((len(rows), len(taxonomy)), dtype=np.bool_)
        for row, (_, place, ids) in enumerate(rows):
            if ids is None:
                known[row] = True
                continue
            known[row, [knowledge_file.node_number(taxonomy, i, place) for i in ids]] = True
        listed = int(known.sum())
        known = taxonomy.sums_below(known.astype(np.int64)) > 0  # whoever knows a kite knows birds
        known[:, 0] = True
        if added := int(known.sum()) - listed:
            warnings.warn(
                f"{path}: {counted(added, 'node')} above the listed ones count as known too",
                stacklevel=2,
            )
        try:
            return cls(taxonomy, known, names, np.array([r[0] for r in rows]), annotators)
        except KnowledgeError as error:
            raise KnowledgeError(f"{path}: {error}") from None

    # -- from real labels -------------------------------------------------------------------------

    @classmethod
    def from_labels(
        cls,
        taxonomy: Taxonomy,
        labels: Sequence[str] | NDArray[np.integer[Any]],
        clients: Sequence[str] | NDArray[np.integer[Any]],
        annotators: Sequence[str] | NDArray[np.integer[Any]] | None = None,
        min_count: int | None = None,
    ) -> Knowledge:
        """Infer knowledge from mixed-depth labels: what is used is known (method, section 5).

        ``labels`` are node ids, or node numbers of ``taxonomy``; ``clients`` and ``annotators`` (if
        known) say who wrote each. A node counts as known to a labeller that used it
        or a node below it at least ``min_count`` times; the root is always known. By default a
        label must occur twice, or once where slips do not explain the number of labels that occur
        once (:func:`fedgrain.knowledge.inference.infer`).

        >>> tree = Taxonomy.from_edges([("animal", "bird"), ("animal", "cat"), ("bird", "kite")])
        >>> labels, sites = ["bird", "kite", "kite", "cat"], ["museum"] * 4
        >>> Knowledge.from_labels(tree, labels, sites, min_count=2).known_ids(0)
        ['animal', 'bird', 'kite']
        """
        if min_count is not None and min_count < 1:
            raise KnowledgeError(f"min_count is {min_count}, but at least 1 is needed")
        nodes = _label_numbers(taxonomy, labels)
        if not len(nodes):
            raise KnowledgeError("there are no labels to infer knowledge from; give at least one")
        client_values, client_of = _numbered("clients", clients, len(nodes))
        names = tuple(str(value) for value in client_values)
        rows, row_of, shown = np.arange(len(names)), client_of, None
        if annotators is not None:
            people, person_of = _numbered("annotators", annotators, len(nodes))
            pair, row_of = np.unique(client_of * len(people) + person_of, return_inverse=True)
            rows = pair // len(people)
            shown = tuple(str(people[person]) for person in pair % len(people))
        counts = np.zeros((len(rows), len(taxonomy)), dtype=np.int64)
        np.add.at(counts, (row_of, nodes), 1)
        least = [infer(row, min_count).min_count for row in counts]
        known = taxonomy.sums_below(counts) >= np.array(least)[:, None]
        known[:, 0] = True
        return cls(taxonomy, known, names, rows.astype(np.int32), shown)


def numbered_clients(count: int) -> tuple[str, ...]:
    """Return the names of generated clients: client 0, client 1, ..."""
    return tuple(f"client {number}" for number in range(count))


def _label_numbers(
    taxonomy: Taxonomy, labels: Sequence[str] | NDArray[np.integer[Any]]
) -> NDArray[np.int64]:
    values = np.asarray(labels)
    if values.dtype.kind in "iu":
        wrong = np.flatnonzero((values < 0) | (values >= len(taxonomy)))
        if wrong.size:
            raise KnowledgeError(
                f"label {wrong[0]} is node number {values[wrong[0]]}, but the taxonomy has nodes 0 "
                f"to {len(taxonomy) - 1}"
            )
        return values.astype(np.int64)
    ids, inverse = np.unique(values.astype(str), return_inverse=True)
    first = {node: int(np.argmax(inverse == number)) for number, node in enumerate(ids.tolist())}
    numbers = [
        knowledge_file.node_number(taxonomy, node, f"label {place}")
        for node, place in first.items()
    ]
    return np.array(numbers, dtype=np.int64)[inverse]


def _numbered(
    what: str, values: Sequence[str] | NDArray[np.integer[Any]], count: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the different values in order, and the number of each entry's value."""
    array = np.asarray(values)
    if array.shape != (count,):
        raise KnowledgeError(
            f"there are {count} labels but {len(array)} {what}; give one per label"
        )
    distinct, numbers = np.unique(array, return_inverse=True)
    return distinct, numbers.astype(np.int64)

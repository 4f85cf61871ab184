"""Read and write taxonomies as CSV edges, JSON and networkx graphs.

A CSV file has the columns ``parent``, ``child`` and optionally ``name``, the name of the child,
``synonyms``, further names separated by ``|``, and ``rank``, which is not used. The root needs a
row, with an empty parent, only if it has a name of its own. JSON keeps everything.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.errors import FedgrainError, TaxonomyError
from fedgrain.files import read_text, write_text
from fedgrain.parsing import csv_rows, parse_json
from fedgrain.taxonomy.dag import SettledGraph, from_dag, settle_dag
from fedgrain.taxonomy.edges import MAX_DEPTH, too_deep
from fedgrain.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    import networkx

_JSON_FORMAT = "fedgrain-taxonomy-1"
_COLUMNS = ("parent", "child", "name", "synonyms", "rank")


@dataclass(frozen=True)
class _Table:
    """The rows of a file: edges and their lines, names, and the root if it has a row."""

    edges: list[tuple[str, str]]
    where: list[str]
    names: dict[str, str]
    root: str | None
    synonyms: dict[str, tuple[str, ...]]


def read_csv(path: str | Path, *, dag: bool = False) -> Taxonomy:
    """Read a tree from a CSV file; with ``dag`` nodes may have several parents (:func:`read_dag`).

    A tree with more than ``MAX_DEPTH`` levels is refused.
    """
    if dag:
        return read_dag(path).taxonomy
    table = _read_table(path)
    tree = Taxonomy.from_edges(
        table.edges, table.names, root=table.root, where=table.where, synonyms=table.synonyms
    )
    _refuse_deep(tree, table.edges, table.where)
    return tree


def read_dag(path: str | Path) -> SettledGraph:
    """Read a CSV file whose nodes may have several parents; return the tree and what it drops."""
    table = _read_table(path)
    try:
        settled = settle_dag(table.edges, table.names, root=table.root, where=table.where)
    except TaxonomyError as error:
        where = "" if str(path) in str(error) else f"{path}: "  # errors of a line name the file
        raise TaxonomyError(f"{where}{error}") from None
    tree = settled.taxonomy
    named = Taxonomy(tree.ids, tree.parents, tree.names, table.synonyms)
    return replace(settled, taxonomy=named)


def _refuse_deep(tree: Taxonomy, edges: Sequence[tuple[str, str]], where: Sequence[str]) -> None:
    """Refuse a tree of more than ``MAX_DEPTH`` levels, because tables grow with the depth."""
    depth = int(tree.depth.max())
    if depth > MAX_DEPTH:
        node = tree.ids[int((tree.depth > MAX_DEPTH).argmax())]
        place = next(place for (_, child), place in zip(edges, where, strict=True) if child == node)
        raise TaxonomyError(f"{place}: {too_deep(node, depth)}")


def _read_table(path: str | Path) -> _Table:
    table = _Table([], [], {}, None, {})
    root = None

    def check(header: list[str]) -> None:
        further = [name for name in header[2:] if name in _COLUMNS[2:]]
        if header[:2] != ["parent", "child"] or header[2:] != list(dict.fromkeys(further)):
            raise TaxonomyError(
                f"{path}, line 1: the header is {','.join(header)!r}; write parent,child or "
                "parent,child,name, and optionally synonyms and rank"
            )

    for place, row in csv_rows(_text_of(path), path, TaxonomyError, check):
        parent, child, name = row["parent"], row["child"], row.get("name")
        if not child:
            raise TaxonomyError(f"{place}: the child is empty; write the id of a node")
        if name:
            table.names[child] = name
        if further := split_synonyms(row.get("synonyms") or ""):
            table.synonyms[child] = further
        if parent:
            table.edges.append((parent, child))
            table.where.append(place)
        elif root is None:
            root = child
        else:
            raise TaxonomyError(
                f"{place}: {child!r} has no parent, but {root!r} is already the root; "
                "only one row may leave the parent empty"
            )
    if not table.edges and root is None:
        raise TaxonomyError(f"{path}: the file has a header but no rows; write one row per edge")
    return replace(table, root=root)


def split_synonyms(text: str) -> tuple[str, ...]:
    """Return the synonyms in a field: separated by ``|``, or by ``;`` if it has no ``|``.

    >>> split_synonyms("cougar | mountain lion")
    ('cougar', 'mountain lion')
    """
    parts = text.split("|" if "|" in text else ";")
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _text_of(path: str | Path) -> str:
    try:
        text = read_text(path)
    except FedgrainError as error:
        raise TaxonomyError(str(error)) from None
    if not text.strip():
        raise TaxonomyError(
            f"{path}: the file is empty; write the header parent,child and the edges"
        )
    return text


def joined_synonyms(words: Sequence[str]) -> str:
    """Return the field that :func:`split_synonyms` reads as these words."""
    joined = "|".join(words)
    return joined + "|" if ";" in joined and "|" not in joined else joined


def write_csv(
    taxonomy: Taxonomy,
    path: str | Path,
    *,
    root_row: bool = False,
    ranks: Mapping[str, str] | None = None,
) -> None:
    """Write the edges, parents before children; ``root_row`` adds a row for the root's name.

    ``ranks``, by id, become a column for people to read.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    synonyms = taxonomy.synonyms
    further = [*(["synonyms"] if synonyms else []), *(["rank"] if ranks else [])]
    writer.writerow(("parent", "child", "name", *further))
    for node in range(0 if root_row or taxonomy.ids[0] in synonyms else 1, len(taxonomy)):
        parent = taxonomy.ids[taxonomy.parents[node]] if node else ""
        further = [joined_synonyms(synonyms.get(taxonomy.ids[node], ()))] if synonyms else []
        further += [ranks.get(taxonomy.ids[node], "")] if ranks else []
        writer.writerow((parent, taxonomy.ids[node], taxonomy.names[node], *further))
    write_text(path, out.getvalue())


def to_json(taxonomy: Taxonomy) -> dict[str, Any]:
    """Return the taxonomy as a JSON object."""
    parents = [None, *(taxonomy.ids[p] for p in taxonomy.parents[1:])]
    nodes: list[dict[str, Any]] = [
        {"id": node, "parent": parent, "name": name}
        for node, parent, name in zip(taxonomy.ids, parents, taxonomy.names, strict=True)
    ]
    for node in nodes:
        if further := taxonomy.synonyms.get(str(node["id"])):
            node["synonyms"] = list(further)
    return {"format": _JSON_FORMAT, "nodes": nodes}


def from_json(content: Any, where: str = "the taxonomy") -> Taxonomy:
    """Build the taxonomy from what :func:`to_json` returned."""
    if not isinstance(content, dict) or content.get("format") != _JSON_FORMAT:
        raise TaxonomyError(f'{where}: not a taxonomy; "format" must be "{_JSON_FORMAT}"')
    nodes = content.get("nodes")
    if not isinstance(nodes, list):
        raise TaxonomyError(f'{where}: "nodes" must be a list of nodes')
    edges, places, names, root = [], [], {}, None
    synonyms: dict[str, list[str]] = {}
    for number, node in enumerate(nodes, start=1):
        place = f"{where}, node {number}"
        valid = isinstance(node, dict) and isinstance(node.get("id"), str) and node["id"]
        parent = node.get("parent") if valid else None
        if not valid or not isinstance(parent, str | None):
            raise TaxonomyError(
                f'{place}: a node needs "id" and "parent" as strings, the root null'
            )
        names[node["id"]] = str(node.get("name") or node["id"])
        further = node.get("synonyms", [])
        if not isinstance(further, list) or not all(isinstance(word, str) for word in further):
            raise TaxonomyError(f'{place}: "synonyms" must be a list of strings')
        synonyms[node["id"]] = further
        if parent is not None:
            edges.append((parent, node["id"]))
            places.append(place)
        elif root is None:
            root = node["id"]
        else:
            raise TaxonomyError(f"{place}: the tree has two roots, {root!r} and {node['id']!r}")
    tree = Taxonomy.from_edges(edges, names, root=root, where=places, synonyms=synonyms)
    _refuse_deep(tree, edges, places)
    return tree


def read_json(path: str | Path) -> Taxonomy:
    """Read a taxonomy written by :func:`write_json`."""
    return from_json(parse_json(_text_of(path), path, TaxonomyError), str(path))


def write_json(taxonomy: Taxonomy, path: str | Path) -> None:
    """Write a taxonomy, with all names, as JSON."""
    write_text(path, json.dumps(to_json(taxonomy), indent=1, ensure_ascii=False) + "\n")


def from_networkx(graph: networkx.DiGraph, *, dag: bool = False) -> Taxonomy:
    """Build a tree from a networkx graph: edges from parent to child, node attribute ``name``."""
    names = {str(node): str(data.get("name", node)) for node, data in graph.nodes(data=True)}
    if len(names) != graph.number_of_nodes():
        raise TaxonomyError("two nodes of the graph have the same text as id; rename one of them")
    edges = [(str(parent), str(child)) for parent, child in graph.edges]
    if dag:
        return from_dag(edges, names)
    lone = next(iter(names)) if len(names) == 1 else None
    alone = [str(node) for node, degree in graph.degree if degree == 0 and len(names) > 1]
    if alone:
        raise TaxonomyError(f"node {alone[0]!r} of the graph has no edge; connect or remove it")
    return Taxonomy.from_edges(edges, names, root=lone)


def to_networkx(taxonomy: Taxonomy) -> networkx.DiGraph:
    """Return a networkx graph with edges from parent to child and node attribute ``name``."""
    import networkx

    graph = networkx.DiGraph()
    for node_id, name in zip(taxonomy.ids, taxonomy.names, strict=True):
        graph.add_node(node_id, name=name)
    graph.add_edges_from(
        (taxonomy.ids[taxonomy.parents[node]], taxonomy.ids[node])
        for node in range(1, len(taxonomy))
    )
    return graph

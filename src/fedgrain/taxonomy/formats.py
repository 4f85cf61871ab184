"""Taxonomies in files and graphs: CSV edges, JSON, networkx.

CSV has the header ``parent,child`` and optionally ``name``, the name of the child. The root has no
row of its own unless its name is to be kept: then a row with an empty parent. JSON keeps it all.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.errors import FedgrainError, TaxonomyError
from fedgrain.files import read_text, write_text
from fedgrain.taxonomy.paths import choose_parents, tree_edges
from fedgrain.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    import networkx

JSON_FORMAT = "fedgrain-taxonomy-1"


@dataclass(frozen=True)
class _Table:
    """The rows of a file: edges with where they stand, names, and the root if it has a row."""

    edges: list[tuple[str, str]]
    where: list[str]
    names: dict[str, str]
    root: str | None


def read_csv(path: str | Path, *, dag: bool = False) -> Taxonomy:
    """Read a tree from a CSV file; with ``dag`` nodes may have several parents (see from_dag)."""
    table = _read_table(path)
    if dag:
        try:
            return from_dag(table.edges, table.names, root=table.root, where=table.where)
        except TaxonomyError as error:
            where = "" if str(path) in str(error) else f"{path}: "  # of a line, it is there already
            raise TaxonomyError(f"{where}{error}") from None
    return Taxonomy.from_edges(table.edges, table.names, root=table.root, where=table.where)


def _read_table(path: str | Path) -> _Table:
    reader = csv.reader(io.StringIO(_text_of(path), newline=""), strict=True)
    table = _Table([], [], {}, None)
    root = None
    try:
        header = [field.strip() for field in next(reader, [])]
        if header not in (["parent", "child"], ["parent", "child", "name"]):
            raise TaxonomyError(
                f"{path}, line 1: the header is {','.join(header)!r}; "
                "write parent,child or parent,child,name"
            )
        for row in reader:
            fields = [field.strip() for field in row]
            place = f"{path}, line {reader.line_num}"
            if not any(fields):
                continue
            if len(fields) != len(header):
                raise TaxonomyError(
                    f"{place}: {len(fields)} fields where the header has {len(header)}"
                )
            parent, child = fields[:2]
            if not child:
                raise TaxonomyError(f"{place}: the child is empty; write the id of a node")
            if len(fields) == 3 and fields[2]:
                table.names[child] = fields[2]
            if parent:
                table.edges.append((parent, child))
                table.where.append(place)
            elif root is None:
                root = child
            else:
                raise TaxonomyError(
                    f"{place}: {child!r} has no parent, but {root!r} is the root already; "
                    "only one row may leave the parent empty"
                )
    except csv.Error as error:
        raise TaxonomyError(f"{path}, line {reader.line_num}: not a CSV file: {error}") from None
    if not table.edges and root is None:
        raise TaxonomyError(f"{path}: the file has a header but no rows; write one row per edge")
    return _Table(table.edges, table.where, table.names, root)


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


def write_csv(taxonomy: Taxonomy, path: str | Path, *, root_row: bool = False) -> None:
    """Write the edges, parents before children; ``root_row`` keeps the root's name as well."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("parent", "child", "name"))
    for node in range(0 if root_row else 1, len(taxonomy)):
        parent = taxonomy.ids[taxonomy.parents[node]] if node else ""
        writer.writerow((parent, taxonomy.ids[node], taxonomy.names[node]))
    write_text(path, out.getvalue())


def to_json(taxonomy: Taxonomy) -> dict[str, Any]:
    """Return the taxonomy as an object that JSON can hold."""
    parents = [None, *(taxonomy.ids[p] for p in taxonomy.parents[1:])]
    nodes = [
        {"id": node, "parent": parent, "name": name}
        for node, parent, name in zip(taxonomy.ids, parents, taxonomy.names, strict=True)
    ]
    return {"format": JSON_FORMAT, "nodes": nodes}


def from_json(content: Any, where: str = "the taxonomy") -> Taxonomy:
    """Build the taxonomy from what :func:`to_json` returned."""
    if not isinstance(content, dict) or content.get("format") != JSON_FORMAT:
        raise TaxonomyError(f'{where}: not a taxonomy; "format" must be "{JSON_FORMAT}"')
    nodes = content.get("nodes")
    if not isinstance(nodes, list):
        raise TaxonomyError(f'{where}: "nodes" must be a list of nodes')
    edges, places, names, root = [], [], {}, None
    for number, node in enumerate(nodes, start=1):
        place = f"{where}, node {number}"
        valid = isinstance(node, dict) and isinstance(node.get("id"), str) and node["id"]
        parent = node.get("parent") if valid else None
        if not valid or not isinstance(parent, str | None):
            raise TaxonomyError(
                f'{place}: a node needs "id" and "parent" as strings, the root null'
            )
        names[node["id"]] = str(node.get("name") or node["id"])
        if parent is not None:
            edges.append((parent, node["id"]))
            places.append(place)
        elif root is None:
            root = node["id"]
        else:
            raise TaxonomyError(f"{place}: the tree has two roots, {root!r} and {node['id']!r}")
    return Taxonomy.from_edges(edges, names, root=root, where=places)


def read_json(path: str | Path) -> Taxonomy:
    """Read a taxonomy written by :func:`write_json`."""
    try:
        content = json.loads(_text_of(path))
    except json.JSONDecodeError as error:
        raise TaxonomyError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    return from_json(content, str(path))


def write_json(taxonomy: Taxonomy, path: str | Path) -> None:
    """Write all of a taxonomy."""
    write_text(path, json.dumps(to_json(taxonomy), indent=1, ensure_ascii=False) + "\n")


def from_networkx(graph: networkx.DiGraph, *, dag: bool = False) -> Taxonomy:
    """Take a networkx graph, edges from parent to child, node attribute ``name`` for names."""
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


def from_dag(
    edges: Iterable[tuple[str, str]],
    names: dict[str, str] | None = None,
    *,
    root: str | None = None,
    where: Sequence[str] | None = None,
) -> Taxonomy:
    """Turn a directed acyclic graph (several parents) into a tree by the path rule of section 2.

    The classes are the nodes without children, in the order they first appear; a node's parents
    rank in the order of their edges. Single-child nodes stay. ``root`` is refused where it is not
    the one node without parents.
    """
    listed = list(edges)
    parents_of: dict[str, list[str]] = {}
    for number, (parent, child) in enumerate(listed):
        above = parents_of.setdefault(child, [])
        if parent in above:
            place = where[number] if where else f"edge {number + 1}"
            raise TaxonomyError(f"{place}: duplicate edge from {parent!r} to {child!r}; remove it")
        above.append(parent)
    inner = dict.fromkeys(parent for parent, _ in listed)
    if root in parents_of:
        raise TaxonomyError(
            f"{root!r} hangs from {parents_of[root][0]!r}, but is said to be the root elsewhere; "
            "drop one of the two"
        )
    named = inner if root is None else {**inner, root: None}
    tops = [node for node in named if node not in parents_of]
    _refuse_cycle(parents_of)
    if len(tops) != 1:
        raise TaxonomyError(
            f"the graph has {len(tops)} roots ({', '.join(map(repr, tops[:3]))}); "
            "hang all but one of them from a parent"
        )
    classes = [child for child in parents_of if child not in inner]
    kept = tree_edges(choose_parents(parents_of, classes, tops[0]), classes)
    return Taxonomy.from_edges(kept, names, root=tops[0])


def _refuse_cycle(parents_of: dict[str, list[str]]) -> None:
    """Raise for a graph with a cycle (Kahn's algorithm from the top)."""
    waiting = {child: len(above) for child, above in parents_of.items()}
    children: dict[str, list[str]] = {}
    for child, above in parents_of.items():
        for parent in above:
            children.setdefault(parent, []).append(child)
    ready = [node for node in children if node not in waiting]
    for node in ready:
        for child in children.get(node, ()):
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    stuck = [node for node, count in waiting.items() if count]
    if stuck:
        raise TaxonomyError(
            f"the graph has a cycle through or above {stuck[0]!r}; remove an edge of it"
        )

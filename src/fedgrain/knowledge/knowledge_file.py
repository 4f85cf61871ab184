"""The JSON file of knowledge: readable, written by hand or by us, and checked entry by entry.

``{"clients": [{"name": "museum", "known": ["animal", "bird"]}, ...]}``, or with
``"annotators": [{"name": ..., "known": [...]}, ...]`` in place of ``"known"`` for every client.
Shorter: ``{"museum": ["bird"], "zoo": "everything"}``. A list need not repeat what is above its
nodes, and ``"everything"`` stands for all nodes.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedgrain.errors import KnowledgeError
from fedgrain.files import read_text, write_text
from fedgrain.parsing import parse_json
from fedgrain.taxonomy.tree import Taxonomy

EVERYTHING = "everything"
# number of the client, place in the file, ids of known nodes (None: all)
_Row = tuple[int, str, list[str] | None]


def write(path: str | Path, entries: Sequence[dict[str, Any]]) -> None:
    """Write one client per line, so that a change of one client is a change of one line."""
    lines = ",\n".join("    " + json.dumps(entry, ensure_ascii=False) for entry in entries)
    write_text(path, '{\n  "clients": [\n' + lines + "\n  ]\n}\n")


def read(path: str | Path) -> tuple[list[_Row], tuple[str, ...], tuple[str, ...] | None]:
    """Return the rows, the names of the clients, and the annotators where the file has them."""
    mend = "correct the file or make a new one with fedgrain knowledge --out"
    content = parse_json(read_text(path), path, KnowledgeError, mend)
    clients = content.get("clients") if isinstance(content, dict) else None
    if clients is None and isinstance(content, dict):  # the short form
        clients = [{"name": name, "known": known} for name, known in content.items()]
    if not isinstance(clients, list) or not clients:
        raise KnowledgeError(
            f'{path}: a list "clients" of objects with "name" and "known" is missing; '
            'write {"clients": [{"name": ..., "known": [ids of nodes]}, ...]}, or '
            '{"zoo": "everything", "museum": [ids of nodes]}'
        )
    rows: list[_Row] = []
    names: list[str] = []
    annotators: list[str] = []
    for number, client in enumerate(clients):
        names.append(_name(client, f"{path}: client number {number}"))
        place = f"{path}: client {names[-1]!r}"
        if "annotators" not in client:
            rows.append((number, place, _known(client, place)))
            continue
        if not isinstance(client["annotators"], list) or not client["annotators"]:
            raise KnowledgeError(f'{place}: "annotators" must be a list of at least one object')
        for person, annotator in enumerate(client["annotators"]):
            annotators.append(_name(annotator, f"{place}: annotator number {person}"))
            where = f"{place}, annotator {annotators[-1]!r}"
            rows.append((number, where, _known(annotator, where)))
    if annotators and len(annotators) != len(rows):
        raise KnowledgeError(
            f'{path}: some clients have "annotators" and some have none; give all or none'
        )
    return rows, tuple(names), tuple(annotators) if annotators else None


def node_number(taxonomy: Taxonomy, node_id: str, place: str) -> int:
    """Return the number of a node; an unknown one is an error that names the nearest."""
    if node_id in taxonomy:
        return taxonomy.index(node_id)
    spelled = dict(zip(taxonomy.names, taxonomy.ids, strict=True))
    spelled.update({node: node for node in taxonomy.ids})
    close = difflib.get_close_matches(node_id, spelled, n=3, cutoff=0.5)
    shown = " or ".join(_shown(taxonomy, spelled[match]) for match in close)
    advice = f"did you mean {shown}?" if close else "list the nodes with fedgrain taxonomy --out"
    raise KnowledgeError(f"{place}: there is no node {node_id!r} in the taxonomy; {advice}")


def _shown(taxonomy: Taxonomy, node_id: str) -> str:
    name = taxonomy.names[taxonomy.index(node_id)]
    return repr(node_id) if name == node_id else f"{node_id!r} ({name})"


def _name(entry: Any, place: str) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not name:
        raise KnowledgeError(f'{place}: an object with a "name" that is a text is needed')
    return name


def _known(entry: dict[str, Any], place: str) -> list[str] | None:
    known = entry.get("known")
    if known == EVERYTHING:
        return None
    if not isinstance(known, list) or not all(isinstance(node, str) for node in known):
        raise KnowledgeError(f'{place}: "known" must be a list of node ids, or "everything"')
    return known

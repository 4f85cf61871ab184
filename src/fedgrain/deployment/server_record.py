"""The server's record: every message to a site and every answer, in the run folder.

A message carries the head of this record and an answer that of the site's. So each side notes how
far the other's record went: neither can cut its own unnoticed by the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedgrain.federated.faults import Fault
from fedgrain.messages.asking import Asked, ask
from fedgrain.messages.fingerprints import fingerprint, head_of, update_norm, with_head
from fedgrain.records.chain import Chain
from fedgrain.text import one_line


@dataclass(frozen=True)
class ServerRecord:
    """Writes what the server sends and gets."""

    chain: Chain

    def marked(self, contents: Mapping[int, RecordDict]) -> None:
        """Put the head of this record into messages that are about to be sent."""
        if self.chain.head.number == 0 and contents:
            self.chain.add({"what": "opened"})  # also checks what is there already
        for content in contents.values():
            with_head(content, self.chain.mark)

    def sent(
        self,
        kind: str,
        contents: Mapping[int, RecordDict],
        numbers: Mapping[int, str],
        names: Mapping[int, str],
    ) -> None:
        """Record messages that were sent."""
        self._add(
            {"what": "left", **_about(kind, contents[node], numbers[node], names, node),
             **fingerprint(contents[node])}
            for node in numbers
        )  # fmt: skip

    def received(
        self,
        kind: str,
        contents: Mapping[int, RecordDict],
        names: Mapping[int, str],
        asked: Asked,
    ) -> None:
        """Record what came back: an answer, a refusal of the site's policy, or a fault."""
        entries = []
        for node, number in asked.numbers.items():
            answer = asked.answers[node]
            entry = {
                "what": "came" if isinstance(answer, Message) else "missing",
                **_about(kind, contents[node], number, names, node),
            }
            if isinstance(answer, Fault):
                entry |= {"note": f"{answer.kind}: {one_line(answer.reason)}"}
            entries.append(entry | asked.notes.get(node, {}))
        self._add(entries)

    def _add(self, entries: Any) -> None:
        if found := list(entries):
            self.chain.add(*found)


def ask_recorded(
    record: ServerRecord | None,
    names: Mapping[int, str],
    grid: Grid,
    contents: Mapping[int, RecordDict],
    kind: str,
    limit: float | None,
) -> Asked:
    """Send messages and wait for the answers; record both, if there is a record."""
    if record is None:
        return ask(grid, contents, kind, limit)
    record.marked(contents)
    sent = partial(record.sent, kind, contents, names=names)
    asked = ask(grid, contents, kind, limit, sent, noted)
    record.received(kind, contents, names, asked)
    return asked


def noted(sent: RecordDict, answer: RecordDict) -> dict[str, Any]:
    """Return what the record says of an answer: size, hash, how far its update went, its head."""
    norm, peer = update_norm(sent, answer), head_of(answer)
    told = {"norm": norm, "peer": peer}
    return fingerprint(answer) | {key: value for key, value in told.items() if value is not None}


def _about(
    kind: str, content: RecordDict, number: str, names: Mapping[int, str], node: int
) -> dict[str, Any]:
    told: Any = content.config_records.get("about") or {}
    found: dict[str, Any] = {"kind": kind, "site": names[node], "message": number}
    return found | ({"round": told["round"]} if "round" in told else {})

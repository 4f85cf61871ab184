"""Send each node a message, and wait for the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedgrain.federated.faults import Fault, Kind
from fedgrain.messages.bounded_replies import pull
from fedgrain.messages.parcels import ParcelError, content_of, parcel_of
from fedgrain.messages.replies import fault_of, refused, unreadable

# seconds between two looks for answers: this part of the time so far, within limits
_PART, _SOON, _LATER = 1 / 8, 0.1, 1.0
Note = Callable[[RecordDict, RecordDict], dict[str, Any]]  # of what was sent and its answer


@dataclass(frozen=True)
class Asked:
    """What came back: an answer or a fault of each node, and who was silent."""

    answers: dict[int, Message | Fault]
    silent: list[int]  # nodes that were reached, but did not answer in time or went away
    seconds: float
    numbers: Mapping[int, str]  # Flower's number of each node's message
    notes: Mapping[int, dict[str, Any]]  # of each answer that could be read


def ask(
    grid: Grid,
    contents: Mapping[int, RecordDict],
    kind: str,
    limit: float | None,
    on_sent: Callable[[Mapping[int, str]], None] | None = None,
    note: Note | None = None,
) -> Asked:
    """Send messages by node and wait for the answers, up to ``limit`` seconds.

    ``on_sent`` is called with the numbers of the messages by node before any answer is fetched.
    ``note`` reads an answer for the record; one that it cannot read is a fault of its site.
    """
    began = time.monotonic()
    nodes = list(contents)
    messages = [Message(parcel_of(contents[node]), node, kind, ttl=limit) for node in nodes]
    ids = list(grid.push_messages(messages)) if messages else []
    waiting = {sent: node for sent, node in zip(ids, nodes, strict=True) if sent}
    numbers = {node: sent for sent, node in waiting.items()}
    if on_sent is not None:
        on_sent(numbers)
    missing = Fault("it is not connected", Kind.GONE)
    answers: dict[int, Message | Fault] = dict.fromkeys(nodes, missing)
    late = Fault(f"it did not answer within {limit or 0:g} seconds", Kind.TIME_OUT)
    answers.update(dict.fromkeys(waiting.values(), late))
    gone: list[int] = []
    notes: dict[int, dict[str, Any]] = {}
    in_time = True
    while waiting and in_time:
        in_time = limit is None or time.monotonic() < began + limit
        # answers that have arrived count, also after the limit
        sent = {number: contents[node] for number, node in waiting.items()}
        for number, reply in pull(grid, sent):
            node = waiting.pop(number)
            answer, notes[node] = _checked(reply, contents[node], kind, note)
            answers[node] = answer
            if isinstance(answer, Fault) and answer.kind == Kind.GONE:
                gone.append(node)
        if waiting and in_time:
            time.sleep(min(max(_PART * (time.monotonic() - began), _SOON), _LATER))
    silent = [*waiting.values(), *gone]
    return Asked(answers, silent, time.monotonic() - began, numbers, notes)


def _checked(
    reply: Message | Fault, sent: RecordDict, kind: str, note: Note | None
) -> tuple[Message | Fault, dict[str, Any]]:
    """Return a readable reply as it is, with its note; anything else becomes a fault."""
    if isinstance(reply, Fault):
        return reply, {}
    try:
        if reply.has_content():
            reply.content = content_of(reply.content)
        if (fault := fault_of(reply) or refused(reply.content, sent, kind)) is not None:
            return fault, {}
        return reply, {} if note is None else note(sent, reply.content)
    except ParcelError as error:
        return Fault(f"its answer cannot be read: {error}", Kind.UNREADABLE), {}
    except Exception as error:  # whatever a site sends, it loses only its own update
        return unreadable(error), {}

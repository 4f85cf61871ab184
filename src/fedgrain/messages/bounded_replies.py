"""Fetch the sites' replies, each only up to the size of an honest one.

Flower 1.41 downloads and assembles a whole reply before it can be checked; an array may even refer
to the same chunk of bytes many times, which multiplies it in memory. So this module fetches the
parts with Flower's own functions and counts them before they are assembled. It matches replies to
messages by what the SuperLink has checked, not by what the reply claims.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

import httpx
from flwr.app import Array, Message, RecordDict
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_head_values_from_object_content,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    inflate_object_from_contents,
    pull_objects,
)
from flwr.superlink.grid.http_grid import HttpGrid

from fedgrain.federated.faults import Fault, Kind
from fedgrain.messages.replies import unreadable

SLACK = 4 * 2**20  # bytes of an answer besides its arrays: counts, scores, names
_PER_ARRAY = 4096  # bytes around each array
SOON_SECONDS = 0.05  # until a part that is still on its way is asked for again; Flower waits 1
_OBJECTS = 1000  # parts of an answer besides two per array


class _TooMuchError(ValueError):
    """A reply is larger than an honest one."""


def most_bytes(sent: RecordDict) -> int:
    """Return the largest allowed answer: the size of what was sent, plus some slack."""
    arrays = [array for record in sent.array_records.values() for array in record.values()]
    return SLACK + sum(len(array.data) + _PER_ARRAY for array in arrays)


def pull(grid: Grid, sent: Mapping[str, RecordDict]) -> list[tuple[str, Message | Fault]]:
    """Return the replies so far by message id; an unreadable reply is a fault."""
    if not isinstance(grid, HttpGrid):
        replies = grid.pull_messages(list(sent))
        return [(reply.metadata.reply_to_message_id, reply) for reply in replies]
    client: Any = grid._runtime_client
    come = client.PullMessages(PullAppMessagesRequest(message_ids=list(sent)))
    found: list[tuple[str, Message | Fault]] = []
    for about, tree in zip(come.messages_list, come.message_object_trees, strict=True):
        to, number = about.metadata.reply_to_message_id, about.metadata.message_id
        if to not in sent:
            continue
        try:
            parts = _parts(grid, [part.object_id for part in iterate_object_tree(tree)], sent[to])
            found.append((to, _message(number, parts)))
        except httpx.HTTPError:
            raise  # the server's own connection
        except _TooMuchError as error:
            found.append((to, Fault(str(error), Kind.REFUSED)))
        except ObjectPullError:
            found.append((to, Fault("its answer is incomplete", Kind.GONE)))
        except Exception as error:  # whatever a site sends, it loses only its own update
            found.append((to, unreadable(error)))
        received = ConfirmMessageReceivedRequest(
            node=grid.node, run_id=grid.run.run_id, message_object_id=number
        )
        client.ConfirmMessageReceived(received)  # Flower may forget it, whatever it was
    return found


def _parts(grid: HttpGrid, numbers: list[str], sent: RecordDict) -> dict[str, bytes]:
    """Download the parts of a reply; stop if they are too many or too large."""
    limit, arrays = most_bytes(sent), sum(len(r) for r in sent.array_records.values())
    most = _OBJECTS + 2 * arrays + limit // 2**20
    if len(numbers) > most:
        raise _TooMuchError(f"its answer has {len(numbers)} parts, but at most {most} are allowed")
    client: Any = grid._runtime_client
    fetch = make_pull_object_fn_protobuf(client.PullObject, grid.node, grid.run.run_id)
    parts = pull_objects(
        numbers, pull_object_fn=_counted(fetch, limit), initial_backoff=SOON_SECONDS
    )
    _check_together(parts, limit)
    return parts


def _counted(fetch: Callable[[str], bytes], limit: int) -> Callable[[str], bytes]:
    """Return the function with a limit on the bytes it fetches."""
    total, lock = 0, Lock()

    def fetch_one(number: str) -> bytes:
        nonlocal total
        if total > limit:
            raise _TooMuchError(f"its answer has more than {limit} bytes")
        content = fetch(number)
        with lock:
            total += len(content)
        if total > limit:
            raise _TooMuchError(f"its answer has more than {limit} bytes")
        return content

    return fetch_one


def _check_together(parts: Mapping[str, bytes], limit: int) -> None:
    """Refuse arrays that repeat the same bytes until together they exceed the limit."""
    total = 0
    for content in parts.values():
        kind, children, _ = get_object_head_values_from_object_content(content)
        if kind != "Array":
            continue
        for number in json.loads(get_object_body(content, Array))["arraychunk_ids"]:
            total += len(parts[children[number]])
            if total > limit:
                raise _TooMuchError(f"its arrays have more than {limit} bytes when assembled")


def _message(number: str, parts: dict[str, bytes]) -> Message:
    message = inflate_object_from_contents(number, parts)
    if not isinstance(message, Message):
        raise TypeError(type(message).__name__)
    message.metadata.__dict__["_message_id"] = number
    return message

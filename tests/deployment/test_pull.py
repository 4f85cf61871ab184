"""Replies are counted before they are put together: Flower's own grid, and its parts in a store."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_id,
    get_object_tree,
)
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid

from fedgrain.federated.faults import Fault
from fedgrain.messages.bounded_replies import SLACK, most_bytes, pull

SENT = RecordDict({"whole": ArrayRecord({"w": Array(np.arange(1000, dtype=np.float32))})})


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Link:
    """What a SuperLink keeps of a reply, and hands out part by part."""

    def __init__(self, content: RecordDict) -> None:
        asked = Message(SENT, 7, "train")
        asked.metadata.__dict__.update(_message_id="asked", _src_node_id=1, _run_id=1)
        reply = Message(content, reply_to=asked)
        self.number = reply.object_id
        reply.metadata.__dict__["_message_id"] = self.number
        self.tree = get_object_tree(reply)
        self.parts = {n: part.deflate() for n, part in get_all_nested_objects(reply).items()}
        self.proto = message_to_proto(reply)
        self.proto.metadata.reply_to_message_id = "asked"
        self.handed_out, self.confirmed = 0, list[str]()

    def PullMessages(self, request: PullAppMessagesRequest) -> PullAppMessagesResponse:
        return PullAppMessagesResponse(messages_list=[self.proto], message_object_trees=[self.tree])

    def PullObject(self, request: PullObjectRequest) -> PullObjectResponse:
        content = self.parts[request.object_id]
        self.handed_out += len(content)
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, request: Any) -> None:
        self.confirmed.append(request.message_object_id)


def pulled(link: Link) -> Message | Fault:
    grid = HttpGrid(insecure=True, token="x")
    grid._client, grid._run = link, SimpleNamespace(run_id=1)
    found = pull(grid, {"asked": SENT})
    assert link.confirmed == [link.number]
    ((number, reply),) = found
    assert number == "asked"
    return reply


@pytest.fixture(autouse=True)
def plain_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpGrid, "run", property(lambda grid: grid._run))


def replaced(link: Link, wanted: bytes, change: Callable[[bytes], bytes]) -> None:
    """Change what a part holds; the parts are handed out as the liar left them."""
    for number, content in link.parts.items():
        if content.startswith(wanted):
            link.parts[number] = change(content)


def test_an_honest_reply_arrives_as_it_was_sent() -> None:
    reply = pulled(Link(SENT))
    assert isinstance(reply, Message)
    array = reply.content.array_records["whole"]["w"]
    assert np.array_equal(array.numpy(), np.arange(1000, dtype=np.float32))


def test_more_than_was_sent_is_not_put_together() -> None:
    extra = {"w": SENT.array_records["whole"]["w"]}
    extra["more"] = Array(np.random.default_rng(1).random(8_000_000))
    link = Link(RecordDict({"whole": ArrayRecord(extra)}))
    tracemalloc.start()
    fault = pulled(link)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(fault, Fault) and fault.kind == "refused"
    assert fault.reason == f"its answer has more than {most_bytes(SENT)} bytes"
    assert peak < 2.2 * 64e6  # what is on its way at once, not several copies of all


def test_bytes_named_many_times_over_are_not_multiplied() -> None:
    """A chunk of 1 MB, named 100,000 times in a list of 200 kB: 100 GB in memory."""
    content = RecordDict({"whole": ArrayRecord({"w": Array(np.zeros(2**18, np.float32))})})
    link = Link(content)

    def many(part: bytes) -> bytes:
        head, body = part.split(b"\0", 1)
        about = json.loads(body)
        about["arraychunk_ids"] = [0] * 100_000
        body = json.dumps(about).encode()
        kind, children, _ = head.decode().split(" ")
        return f"{kind} {children} {len(body)}".encode() + b"\0" + body

    replaced(link, b"Array ", many)
    fault = pulled(link)
    assert isinstance(fault, Fault) and fault.kind == "refused"
    assert fault.reason.endswith("bytes when assembled")


def test_very_many_parts_are_not_fetched() -> None:
    many = {f"w{n}": Array(np.full(1, n, np.float32)) for n in range(2000)}
    link = Link(RecordDict({"whole": ArrayRecord(many)}))
    fault = pulled(link)
    assert isinstance(fault, Fault) and fault.kind == "refused" and "parts" in fault.reason
    assert link.handed_out == 0


def test_a_text_of_20_mb_is_not_read() -> None:
    fault = pulled(Link(RecordDict({"failed": ConfigRecord({"fault": "x" * 20_000_000})})))
    assert isinstance(fault, Fault) and fault.kind == "refused"
    assert most_bytes(SENT) < SLACK + 10_000


@pytest.mark.parametrize("part", [b"Array ", b"RecordDict ", b"Message "])
def test_parts_that_are_damaged_cost_their_site_alone(part: bytes) -> None:
    link = Link(SENT)
    replaced(link, part, lambda content: content[: len(part) + 70] + b"\0{nonsense")
    fault = pulled(link)
    assert isinstance(fault, Fault) and fault.kind == "unreadable"


def test_a_reply_counts_for_the_message_the_superlink_says() -> None:
    """What the reply itself names, another site's message, is not looked at."""
    link = Link(SENT)
    assert get_object_id(link.parts[link.number]) == link.number
    reply = pulled(link)
    assert isinstance(reply, Message)

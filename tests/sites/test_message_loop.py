"""Flower's own loop at a SuperNode: a message that nobody answers does not spoil the next."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run, RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode import start_client_internal as flower
from flwr.supernode.nodestate import NodeStateFactory

from fedgrain.handover.bell import Bell
from fedgrain.handover.message_loop import improve

RUN = 1


class Node:
    """A SuperNode's memory, and the two steps of Flower's loop on it."""

    def __init__(self) -> None:
        factory = NodeStateFactory(ObjectStoreFactory())
        self.state: Any = factory.state()
        self.store = factory.objectstore_factory.store()
        self.state.store_run(Run.create_empty(RUN))
        self.sent: list[str] = []
        self.bell = Bell()
        improve(flower, self.bell)

    def message(self, ttl: float) -> Message:
        found = Message(RecordDict({"a": ConfigRecord({"b": 1})}), 7, "train", ttl=ttl)
        found.metadata.__dict__["_message_id"] = found.object_id
        return found

    def fetch(self, message: Message | None, pull: Any) -> int | None:
        come = None if message is None else (message, get_object_tree(message))
        nothing: Any = None
        return flower._pull_and_store_message(
            state=self.state, object_store=self.store, node_config={}, receive=lambda: come,
            get_run=nothing, get_fab=nothing, pull_object=pull,
            confirm_message_received=lambda *_: None, trusted_entities=None,
        )  # fmt: skip

    def answer(self) -> None:
        def send(reply: Message, *_: Any) -> tuple[set[str], str]:
            self.sent.append(reply.metadata.reply_to_message_id)
            return set(), ""

        flower._push_messages(
            state=self.state, object_store=self.store, send=send, push_object=lambda *_: None
        )

    def left(self) -> tuple[int, int]:
        unfinished = self.state.get_tasks(statuses=["pending", "starting", "running"])
        return len(self.state.msg_store), len(unfinished)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    for name in ("time", "pull_objects", "_pull_and_store_message", "_push_messages"):
        monkeypatch.setattr(flower, name, getattr(flower, name))  # put back at the end
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    return Node()


def test_a_run_that_ends_while_its_message_is_fetched_leaves_nothing(node: Node) -> None:
    def pull(run: int, number: str) -> bytes:
        raise RunNotRunningException

    assert node.fetch(node.message(60.0), pull) is None
    assert node.left() == (0, 0)


def test_a_message_without_a_reply_is_given_up_and_the_next_gets_its_own(node: Node) -> None:
    first, second = node.message(0.4), node.message(60.0)
    parts = {number: part.deflate() for number, part in get_all_nested_objects(first).items()}
    assert node.fetch(first, lambda _, number: parts[number]) == RUN
    assert node.left() == (1, 1)
    began = time.monotonic()
    node.answer()
    assert 0.3 < time.monotonic() - began < 10 and node.sent == []
    assert node.left() == (0, 0)
    assert os.read(node.bell.heard, 10) == b"."  # the messenger was woken, once
    node.state.create_task(TaskType.CLIENT_APP, RUN)
    node.state.store_message(second)
    reply = Message(RecordDict(), reply_to=second)
    flower._insert_message(reply, node.state, node.store)
    node.answer()
    assert node.sent == [second.metadata.message_id]

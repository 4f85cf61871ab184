"""A grid without a network: messages arrive at once, and real sites answer them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo

from fedgrain.handover.passing import Request
from fedgrain.messages.parcels import content_of
from fedgrain.sites.answers import Answering
from fedgrain.sites.site import Site

Answer = Callable[[Message], RecordDict]


class Wire:
    """A grid whose messages arrive at once; every one is kept."""

    def __init__(self, sites: dict[int, Answer]) -> None:
        self.sites, self.sent, self.replies = sites, [], {}
        self.infos = {n: NodeInfo(node_id=n, online_until=1.0) for n in sites}

    def get_nodes(self) -> Iterable[NodeInfo]:
        return list(self.infos.values())

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            name = str(len(self.sent))
            message.metadata.__dict__.update(_message_id=name, _src_node_id=1, _run_id=1)
            message.content = content_of(message.content)
            self.sent.append(message)
            ids.append(name)
            try:
                content = self.sites[message.metadata.dst_node_id](message)
            except TimeoutError:
                continue
            self.replies[name] = Message(content, reply_to=message)
        return ids

    def pull_messages(self, ids: Iterable[str]) -> list[Message]:
        return [self.replies.pop(name) for name in ids if name in self.replies]


def at(site: Site) -> Answer:
    """Answer as the ClientApp does."""

    def answer(message: Message) -> RecordDict:
        kind = message.metadata.message_type
        if kind == "query":
            return site.counts().record()
        return getattr(site, kind)(message.content)

    return answer


def through(package: Path, node: Mapping[str, Any], settings: Mapping[str, Any]) -> Answer:
    """Answer as a site's worker does: it opens the site once."""
    answering = Answering()

    def answer(message: Message) -> RecordDict:
        about = message.metadata
        ids = str(about.run_id), about.message_id
        request = Request(about.message_type, str(package), node, settings, *ids)
        return answering.answer(request, message.content)

    return answer

"""Flower's loop over the messages of a SuperNode, with short waits and without dead ends.

Flower 1.41 keeps a message whose run ended while it was fetched, and a message whose process was
killed before it had read it waits for ever. Either way every later answer of the site comes a
message too late. So here what nobody will answer is forgotten: when there is no message, and when
the server's time for an answer has passed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fedgrain.handover.bell import Bell

# Seconds between two looks for a message: this part of the time since the last one, within limits.
# Every look costs the server some milliseconds.
_PART, _SOON, _LATER = 1 / 8, 0.15, 2.0
_REPLY = 0.05  # for a reply, or a part of a message, that is on its way
_UNFINISHED = ("pending", "starting", "running")


class _GivenUpError(Exception):
    """The server no longer waits for the answer to this message."""


class Clock:
    """The module ``time`` as Flower's loop sees it: it sleeps less while there is work."""

    def __init__(self) -> None:
        self._last = -float("inf")  # when there was a message
        self.answer_until = float("inf")

    def sleep(self, seconds: float) -> None:
        """Wait for a reply (Flower: half a second) or for the next message (3 seconds)."""
        now = time.monotonic()
        if seconds < 1:
            if now > self.answer_until:
                raise _GivenUpError
            self._last = now
            time.sleep(min(seconds, _REPLY))
        else:
            time.sleep(min(max(_PART * (now - self._last), _SOON), _LATER, seconds))

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class Loop:
    """The two steps of Flower's loop: fetch a message, and wait for its reply and send it."""

    def __init__(self, flower: Any, bell: Bell, clock: Clock) -> None:
        self._fetch: Callable[..., int | None] = flower._pull_and_store_message
        self._answer: Callable[..., None] = flower._push_messages
        self._bell, self._clock = bell, clock

    def fetch(self, *, state: Any, object_store: Any, **rest: Any) -> int | None:
        """Fetch a message; if there is none, nothing is left of an earlier one."""
        run: int | None = self._fetch(state=state, object_store=object_store, **rest)
        if run is None:
            forget(state, object_store)
        return run

    def answer(self, *, state: Any, object_store: Any, **rest: Any) -> None:
        """Wake the messenger, and send the reply if it comes in time."""
        waits = [entry.message.metadata.ttl for entry in state.msg_store.values()]
        self._clock.answer_until = time.monotonic() + max(waits, default=0.0)
        self._bell.ring()
        try:
            self._answer(state=state, object_store=object_store, **rest)
        except _GivenUpError:
            print("fedgrain: no answer in time; the message is given up", file=sys.stderr)
            forget(state, object_store)
        finally:
            self._clock.answer_until = float("inf")


def forget(state: Any, object_store: Any) -> None:
    """Drop all messages, and the tasks for them; what still works on one cannot reply."""
    if not (numbers := list(state.msg_store)):
        return
    for task in state.get_tasks(statuses=_UNFINISHED):
        state.finish_task(task.task_id, "stopped", "nobody waits for it any more")
    state.delete_messages()
    for number in numbers:
        object_store.delete(number)


def improve(flower: Any, bell: Bell) -> None:
    """Put the clock and the two steps into Flower's module of the loop."""
    clock = Clock()
    loop = Loop(flower, bell, clock)
    flower.time = clock
    flower.pull_objects = partial(flower.pull_objects, initial_backoff=_REPLY)
    flower._pull_and_store_message, flower._push_messages = loop.fetch, loop.answer

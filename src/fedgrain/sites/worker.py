"""The site's worker: ``python -m fedgrain.sites.worker SOCKET PROCESS``.

It loads torch, the net and the data once, and answers the messages that other processes of the same
user pass on to it over a private socket, one after the other. It ends when PROCESS (Flower's
helper, which ends with the SuperNode) ends, and when whoever waits for the current answer goes
away: then nobody wants it, and the next message must not wait for it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flwr.app import RecordDict

from fedgrain.handover.frames import FrameError, receive, send
from fedgrain.handover.passing import Request
from fedgrain.handover.private_socket import forget_old, listen, same_user
from fedgrain.handover.watching import end_with
from fedgrain.messages.parcels import ParcelError, content_of, parcel_of

if TYPE_CHECKING:  # it loads torch
    from fedgrain.sites.answers import Answering

_SEND_SECONDS = 600.0


@dataclass(eq=False)
class Job:
    """A message to answer, and who waits for the answer."""

    connection: socket.socket
    request: Request
    content: RecordDict
    state: str = "waiting"  # running, done, or unwanted
    lock: threading.Lock = field(default_factory=threading.Lock)

    def become(self, state: str, expected: str) -> bool:
        """Change the state if it is the expected one; return whether it was."""
        with self.lock:
            if self.state != expected:
                return False
            self.state = state
            return True


class Progress:
    """Whether the worker is still loading: torch, or the site's images."""

    answering: Answering | None = None

    @property
    def loading(self) -> bool:
        """Loading serves all later messages, so it goes on even if nobody waits for this one."""
        return self.answering is None or self.answering.opening


PROGRESS = Progress()


def take_in(server: socket.socket, jobs: queue.Queue[Job]) -> None:
    """Accept connections of the same user; each brings one message."""
    while True:
        connection, _ = server.accept()
        if same_user(connection):
            threading.Thread(target=_take_one, args=(connection, jobs), daemon=True).start()
        else:
            connection.close()


def _take_one(connection: socket.socket, jobs: queue.Queue[Job]) -> None:
    """Read a message, hand it over, and watch whether the answer is still wanted."""
    try:
        about, content = receive(connection)
        job = Job(connection, Request(**about), content)
    except (OSError, TypeError):
        connection.close()
        return
    jobs.put(job)
    with contextlib.suppress(OSError):
        while connection.recv(1024):
            pass
    if job.become("unwanted", "waiting"):
        return
    loading = PROGRESS.loading
    if job.become("unwanted", "running") and not loading:
        print("fedgrain: nobody waits for this answer any more; the worker ends", file=sys.stderr)
        os._exit(0)


def serve(jobs: queue.Queue[Job]) -> None:
    """Answer messages in the order they come."""
    from fedgrain.arithmetic import one_thread
    from fedgrain.engines.allocator import keep_freed_memory
    from fedgrain.sites.answers import Answering

    keep_freed_memory()
    with one_thread():
        answering = PROGRESS.answering = Answering()
        while True:
            _answer(answering, jobs.get())


def _answer(answering: Answering, job: Job) -> None:
    if not job.become("running", "waiting"):
        return
    content = _readable(job.content)
    answer = answering.answer(job.request, content, lambda: job.state == "running")
    if not job.become("done", "running"):
        job.connection.close()
        return
    try:
        job.connection.settimeout(_SEND_SECONDS)
        send(job.connection, {}, parcel_of(answer))
        job.connection.shutdown(socket.SHUT_RDWR)
    except (FrameError, OSError) as error:
        print(f"fedgrain: the answer could not be passed back ({error})", file=sys.stderr)
    finally:
        job.connection.close()


def _readable(content: RecordDict) -> RecordDict:
    """Return the content of a parcel; a damaged one is recorded and refused as it came."""
    try:
        return content_of(content)
    except ParcelError as error:
        print(f"fedgrain: error: the message cannot be read: {error}", file=sys.stderr)
        return content


def main() -> None:
    """Listen before torch is loaded: messages wait meanwhile."""
    path, watched = Path(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ends with the SuperNode, not with its terminal
    end_with(watched)
    jobs: queue.Queue[Job] = queue.Queue()
    server = listen(path)
    forget_old(path.parent)
    threading.Thread(target=take_in, args=(server, jobs), daemon=True).start()
    serve(jobs)


if __name__ == "__main__":
    main()

"""Persistent worker processes that answer jobs; one that dies or hangs is replaced.

If a worker dies, a new one repeats its job: jobs are deterministic, so the answer has the same
bits. Each worker has a thread that talks to it, so this process never waits for the pipe of a
worker that does not respond.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from fedgrain.engines.pickles import packed, unpacked
from fedgrain.errors import FederationError, RunError
from fedgrain.federated.faults import Fault, Kind

_START_SECONDS = 300.0
_END_SECONDS = 5.0
_FAILED_STARTS = 3  # in a row; then the machine is at fault, not a client
ATTEMPTS = 3  # tries of a job whose worker dies


@dataclass(frozen=True)
class Job:
    """One of the jobs a worker knows by name, with its arguments.

    With ``may_be_slow`` the time limit applies only to a worker that has been stopped (SIGSTOP).
    """

    name: str
    arguments: tuple[Any, ...]
    time_limit: float | None = None
    may_be_slow: bool = False
    subject: str = ""  # whose job it is, for messages


@dataclass
class _Order:
    """A job with the ticket for its answer, and how often its worker has died."""

    ticket: int
    job: Job
    deaths: int = 0


class Pool:
    """A fixed number of workers, built from one recipe; first come, first served."""

    def __init__(self, recipe: bytes, workers: int) -> None:
        self._recipe = tempfile.TemporaryFile()  # noqa: SIM115, until close()
        self._recipe.write(recipe)
        self._recipe.flush()
        self.retries: list[dict[str, str]] = []  # repeated jobs, and why
        self._waiting: deque[_Order] = deque()
        self._events: _Events = SimpleQueue()
        self._answers: dict[int, Any] = {}
        self._next = 0
        self._failed_starts = 0
        self._ended_seconds = 0.0  # on cores, of workers that were replaced
        self._workers = [self._new_worker() for _ in range(workers)]

    def submit(self, job: Job) -> int:
        """Queue a job; the ticket gives its answer."""
        ticket, self._next = self._next, self._next + 1
        self._waiting.append(_Order(ticket, job))
        self._hand_out()
        return ticket

    def answer(self, ticket: int) -> Any:
        """Wait for a job's answer: what the job returned, or a :class:`Fault`."""
        while ticket not in self._answers:
            self._wait()
        return self._answers.pop(ticket)

    def in_order(self, jobs: Iterable[Job], ahead: int) -> Iterator[Any]:
        """Answer jobs in their order; at most ``ahead`` of them are under way or kept for later."""
        tickets: deque[int] = deque()
        for job in jobs:
            tickets.append(self.submit(job))
            if len(tickets) >= ahead:
                yield self.answer(tickets.popleft())
        while tickets:
            yield self.answer(tickets.popleft())

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.end()
        self._workers = []
        self._recipe.close()

    def core_seconds(self) -> float:
        """Return the time on cores that all workers have used, those that ended included."""
        return self._ended_seconds + sum(worker.core_seconds() for worker in self._workers)

    def _hand_out(self) -> None:
        for worker in self._workers:
            if self._waiting and worker.is_free:
                worker.give(self._waiting.popleft())

    def _wait(self) -> None:
        """Wait until a worker answers, dies or exceeds its time limit, and handle that."""
        self._hand_out()
        deadlines = [w.deadline for w in self._workers if w.deadline is not None]
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        with suppress(Empty):
            worker, message = self._events.get(timeout=timeout)
            if worker in self._workers:  # it has not been replaced meanwhile
                self._take(worker, message)
        for worker in list(self._workers):
            if worker.deadline is not None and time.monotonic() >= worker.deadline:
                self._out_of_time(worker)
        self._hand_out()

    def _take(self, worker: _Worker, message: bytes | None) -> None:
        if message is None:
            self._again(worker, f"its worker process died ({worker.cause_of_death()})")
            return
        kind, content = unpacked(message)
        if worker.order is None:
            if kind == "error":
                raise FederationError(f"a worker process cannot start: {content.reason}")
            self._failed_starts = 0
        else:
            self._answers[worker.order.ticket] = content
        worker.rest()

    def _out_of_time(self, worker: _Worker) -> None:
        job = worker.order.job if worker.order else None
        limit = _START_SECONDS if job is None or job.time_limit is None else job.time_limit
        if job is not None and job.may_be_slow:
            if worker.is_stopped():
                self._again(worker, f"its worker process was stopped for {limit:g} s")
            else:
                worker.deadline = time.monotonic() + limit
            return
        reason = f"exceeded its time limit of {limit:g} s"
        if worker.order is None:
            self._not_started(reason)
        else:
            self._answers[worker.order.ticket] = Fault(reason, Kind.TIME_OUT)
        self._replace(worker)

    def _again(self, worker: _Worker, reason: str) -> None:
        """Replace a worker that died, and give its job to the next free one."""
        order = worker.order
        if order is None:
            self._not_started(reason)
        else:
            order.deaths += 1
            if order.deaths >= ATTEMPTS:
                raise RunError(
                    f"{order.job.subject or order.job.name}: {reason}, in each of {ATTEMPTS} "
                    "attempts; if memory ran out, try fewer --workers: the same command resumes "
                    "from the last complete round"
                )
            self.retries.append({"of": order.job.subject or order.job.name, "reason": reason})
            self._waiting.appendleft(order)
        self._replace(worker)

    def _not_started(self, reason: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _FAILED_STARTS:
            raise FederationError(f"worker processes cannot start: the last one {reason}")

    def _replace(self, worker: _Worker) -> None:
        self._ended_seconds += worker.core_seconds()
        worker.end(at_once=True)
        self._workers[self._workers.index(worker)] = self._new_worker()

    def _new_worker(self) -> _Worker:
        return _Worker(self._recipe.fileno(), self._events)


class _Worker:
    """One worker process: starting, free, or busy with a job.

    It reads its recipe from an open file: the socket's buffer is small, so sending the recipe would
    mean waiting for each worker before starting the next.
    """

    def __init__(self, recipe: int, events: _Events) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",  # do not import from the current folder unless we do
                    "-m",
                    "fedgrain.engines.worker_process",
                    str(theirs.fileno()),
                    str(recipe),
                    str(os.getpid()),
                ],
                pass_fds=(theirs.fileno(), recipe),
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C goes to the engine only, which ends its workers
                env={
                    **os.environ,
                    "PYTHONPATH": _import_path(),
                },
            )
        self.order: _Order | None = None
        self.is_free = False
        self.deadline: float | None = time.monotonic() + _START_SECONDS
        self._socket = ours
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._talk, args=(events,), daemon=True)
        self._thread.start()

    def _talk(self, events: _Events) -> None:
        """Forward its answers and send it the outbox; the event None means that it is gone."""
        connection = Connection(os.dup(self._socket.fileno()))
        try:
            with connection:
                while True:
                    events.put((self, connection.recv_bytes()))
                    message = self._outbox.get()
                    if message is None:
                        return
                    connection.send_bytes(message)
                    del message  # free it: it may be large, and the answer may take long
        except (EOFError, OSError):
            events.put((self, None))

    def give(self, order: _Order) -> None:
        self.order, self.is_free = order, False
        limit = order.job.time_limit
        self.deadline = None if limit is None else time.monotonic() + limit
        self._outbox.put(packed((order.job.name, order.job.arguments)))

    def rest(self) -> None:
        self.order, self.is_free, self.deadline = None, True, None

    def core_seconds(self) -> float:
        """Return the time on cores it has used; 0 where this cannot be known."""
        try:
            about = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return 0.0
        user, system = about.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def is_stopped(self) -> bool:
        """Whether the process has been stopped (SIGSTOP); False where this cannot be known."""
        try:
            about = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return False
        return about.rpartition(")")[2].split()[0] in ("T", "t")

    def cause_of_death(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        code = self.process.returncode
        if code is not None and code < 0:
            return f"signal {signal.Signals(-code).name}"
        return f"exit code {code}"

    def end(self, *, at_once: bool = False) -> None:
        """Close the connection, which ends a free worker; kill one that does not respond."""
        if at_once or not self.is_free:
            self.process.kill()
        self._outbox.put(None)
        with suppress(OSError):  # it has hung up itself
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _import_path() -> str:
    """Return the import path of this process, for its workers."""
    return os.pathsep.join(place or str(Path.cwd()) for place in sys.path)


_Events = SimpleQueue[tuple[_Worker, bytes | None]]

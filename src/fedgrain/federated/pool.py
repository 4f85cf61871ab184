"""Persistent worker processes that answer jobs; one that dies or hangs is replaced."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from fedgrain.errors import FederationError
from fedgrain.federated.messages import packed, unpacked

START_SECONDS = 300.0
END_SECONDS = 5.0
FAILED_STARTS = 3  # in a row, after which something is wrong with the machine and not with a client


@dataclass(frozen=True)
class Job:
    """A call of a method of the worker's workshop."""

    method: str
    arguments: tuple[Any, ...]
    time_limit: float | None = None


@dataclass(frozen=True)
class Lost:
    """What stands for the answer to a job that failed: why."""

    reason: str


class Pool:
    """A fixed number of workers, built from one recipe; first come, first served."""

    def __init__(self, recipe: bytes, workers: int) -> None:
        self._recipe = tempfile.TemporaryFile()  # noqa: SIM115, until close()
        self._recipe.write(recipe)
        self._recipe.flush()
        self._waiting: deque[tuple[int, Job]] = deque()
        self._answers: dict[int, Any] = {}
        self._next = 0
        self._failed_starts = 0
        self._workers = [_Worker(self._recipe.fileno()) for _ in range(workers)]

    def submit(self, job: Job) -> int:
        """Queue a job; the ticket gives its answer."""
        ticket, self._next = self._next, self._next + 1
        self._waiting.append((ticket, job))
        self._hand_out()
        return ticket

    def answer(self, ticket: int) -> Any:
        """Wait for a job's answer: what the method returned, or :class:`Lost`."""
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

    def _hand_out(self) -> None:
        for worker in self._workers:
            if self._waiting and worker.is_free:
                worker.give(*self._waiting.popleft())

    def _wait(self) -> None:
        """Wait until a worker answers, dies or runs out of time, and take note of it."""
        self._hand_out()
        deadlines = [w.deadline for w in self._workers if w.deadline is not None]
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        ready = wait([worker.connection for worker in self._workers], timeout)
        now = time.monotonic()
        for number, worker in enumerate(self._workers):
            if worker.connection in ready:
                self._take(number, worker)
            elif worker.deadline is not None and now >= worker.deadline:
                limit = worker.job.time_limit if worker.job else START_SECONDS
                self._replace(number, f"exceeded its time limit of {limit:g} s")
        self._hand_out()

    def _take(self, number: int, worker: _Worker) -> None:
        try:
            kind, content = unpacked(worker.connection.recv_bytes())
        except (EOFError, OSError):
            self._replace(number, f"its worker process died ({worker.cause_of_death()})")
            return
        if worker.ticket is None:
            if kind == "error":
                raise FederationError(f"a worker process cannot start: {content}")
            self._failed_starts = 0
        else:
            self._answers[worker.ticket] = Lost(content) if kind == "error" else content
        worker.rest()

    def _replace(self, number: int, reason: str) -> None:
        worker = self._workers[number]
        worker.end(at_once=True)
        if worker.ticket is not None:
            self._answers[worker.ticket] = Lost(reason)
        else:
            self._failed_starts += 1
            if self._failed_starts >= FAILED_STARTS:
                raise FederationError(f"worker processes cannot start: the last one {reason}")
        self._workers[number] = _Worker(self._recipe.fileno())


class _Worker:
    """One worker process: starting, free, or busy with a job.

    It reads its recipe from an open file: sent over the socket, which holds little, every worker
    would have to be waited for before the next one is started.
    """

    def __init__(self, recipe: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "fedgrain.federated.worker",
                    str(theirs.fileno()),
                    str(recipe),
                    str(os.getpid()),
                ],
                pass_fds=(theirs.fileno(), recipe),
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is for the engine, which ends us, also before main()
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
        self.connection = Connection(ours.detach())
        self.ticket: int | None = None
        self.job: Job | None = None
        self.is_free = False
        self.deadline: float | None = time.monotonic() + START_SECONDS

    def give(self, ticket: int, job: Job) -> None:
        self.ticket, self.job, self.is_free = ticket, job, False
        self.deadline = None if job.time_limit is None else time.monotonic() + job.time_limit
        with suppress(OSError):  # if it died already, its connection will say so
            self.connection.send_bytes(packed((job.method, job.arguments)))

    def rest(self) -> None:
        self.ticket, self.job, self.is_free, self.deadline = None, None, True, None

    def cause_of_death(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        code = self.process.returncode
        if code is not None and code < 0:
            return f"signal {signal.Signals(-code).name}"
        return f"exit code {code}"

    def end(self, *, at_once: bool = False) -> None:
        """Hang up, which ends a free worker; kill one that does not listen."""
        self.connection.close()
        if at_once or not self.is_free:
            self.process.kill()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

"""Pass a message on to the site's worker and bring its answer back.

Flower starts a process for every message. It loads neither torch nor the data: a worker, which
lives as long as the SuperNode, has both. The first message starts the worker; a message whose
worker dies is given to a fresh one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from fedgrain.errors import DeploymentError, FedgrainError
from fedgrain.handover.frames import receive, send
from fedgrain.handover.private_socket import connect, private_folder
from fedgrain.records.chain import Chain

PACKAGE = "fedgrain_app"  # of an app: its config and taxonomy
WORKER = "fedgrain.sites.worker"  # of a later room, which loads torch
_WITHHELD = "it failed"  # all that is reported of a failure with differential privacy
_TRIES = 3  # a message that ends three workers is at fault itself
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_workers: list[subprocess.Popen[bytes]] = []  # workers of this process; they outlive it


class WorkerDiedError(DeploymentError):
    """The site's worker ended before it answered, several times."""


class TooLateError(DeploymentError):
    """The site's worker did not answer while the server waited."""


@dataclass(frozen=True)
class Request:
    """A message of the server's, and what a site needs to answer it."""

    kind: str  # query, train or evaluate
    package: str  # the folder of the app
    node: Mapping[str, Any]  # the site's own settings
    settings: Mapping[str, Any]  # the app's
    run: str = ""  # Flower's number of the run
    message: str = ""  # Flower's number of the message


def is_private(node: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Return whether a site withholds everything but noised updates; in doubt it does."""
    noise = [settings.get(key, 0) for key in ("dp-noise-multiplier", "dp-clip")]
    return "ledger" in node or any(value != 0 for value in noise)


def failure(error: Exception, node: Mapping[str, Any], settings: Mapping[str, Any]) -> RecordDict:
    """Return the answer of a site that failed: the type of the error, or not even that."""
    fault = _WITHHELD if is_private(node, settings) else type(error).__name__
    return RecordDict({"failed": ConfigRecord({"fault": fault})})


def note_failure(request: Request) -> None:
    """Record that an answer leaves which the worker did not give: that the site failed."""
    if "record" not in request.node:
        return
    chain = Chain(Path(str(request.node["record"])), str(request.node.get("site", "a site")))
    entry = {"kind": request.kind, "run": request.run, "message": request.message}
    try:
        chain.add({"what": "left", **entry, "note": "that it failed"})
    except FedgrainError as error:
        print(f"fedgrain: error: {error}", file=sys.stderr)


def pass_on(request: Request, content: RecordDict, seconds: float | None) -> RecordDict:
    """Return the worker's answer; give up after ``seconds``."""
    until = None if seconds is None else time.monotonic() + seconds
    for _ in range(_TRIES):
        try:
            with _worker(socket_path(request.node, os.getppid()), os.getppid()) as connection:
                connection.settimeout(_left(until))
                send(connection, vars(request), content)
                connection.settimeout(_left(until))
                return receive(connection)[1]
        except TimeoutError:
            raise TooLateError(f"no answer within {seconds:g} seconds") from None
        except (OSError, WorkerDiedError) as error:
            print(f"fedgrain: the worker ended ({error}); starting another", file=sys.stderr)
    raise WorkerDiedError(f"the worker ended {_TRIES} times before it answered")


def _left(until: float | None) -> float | None:
    if until is None:
        return None
    if (left := until - time.monotonic()) <= 0:
        raise TimeoutError
    return left


def socket_path(node: Mapping[str, Any], watched: int) -> Path:
    """Return the socket of the worker for these settings, under the process that it ends with."""
    own = json.dumps(dict(node), sort_keys=True, default=str)
    name = hashlib.sha256(f"{watched} {_started(watched)} {own}".encode()).hexdigest()[:24]
    return private_folder() / f"{name}.sock"


def _started(process: int) -> str:
    """Return when a process was started, as Linux says; numbers of processes are used again."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _worker(path: Path, watched: int) -> socket:
    """Return a connection to the worker; start one if there is none."""
    if (found := connect(path)) is not None:
        return found
    with _alone(path.with_suffix(".lock")):
        if (found := connect(path)) is not None:
            return found
        process = subprocess.Popen(
            # -P: the folder it is started in may hold an app that a stranger sent
            [sys.executable, "-P", "-m", WORKER, str(path), str(watched)],
            stdin=subprocess.DEVNULL,
        )
        _workers[:] = [one for one in (*_workers, process) if one.poll() is None]
        end = time.monotonic() + _START_SECONDS
        while (found := connect(path)) is None:
            if process.poll() is not None or time.monotonic() > end:
                raise WorkerDiedError(f"it did not start, exit code {process.poll()}")
            time.sleep(_LOOK_SECONDS)
        return found


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time start a worker."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

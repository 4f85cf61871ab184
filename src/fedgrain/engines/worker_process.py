"""A worker process of the local engine: ``python -m fedgrain.engines.worker_process``.

It receives the federation once, and then answers one job after the other over a socket: the
name of a method of its workshop and the arguments. It ends when the engine's process ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from fedgrain.engines.allocator import keep_freed_memory
from fedgrain.engines.pickles import packed, unpacked
from fedgrain.engines.shared_images import MappedImages
from fedgrain.engines.workshop import Model, Workshop
from fedgrain.federated.faults import Fault
from fedgrain.federated.federation import Federation
from fedgrain.federated.settings import TrainingSettings

WATCH_SECONDS = 0.5


@dataclass(frozen=True, eq=False)
class Recipe:
    """What a worker needs to build the engine's workshop; images are given by their location."""

    federation: Federation  # its source without images
    images: MappedImages
    model: Model
    settings: TrainingSettings
    device: str

    def workshop(self) -> Workshop:
        """Build the workshop on the mapped images."""
        source = replace(self.federation.source, images=self.images.open())
        return Workshop(
            replace(self.federation, source=source), self.model, self.settings, self.device
        )


def serve(connection: Connection, recipe: int) -> None:
    """Answer jobs until the engine closes the connection."""
    try:
        workshop = unpacked(os.pread(recipe, os.fstat(recipe).st_size, 0)).workshop()
        connection.send_bytes(packed(("ready", None)))
    except Exception as error:
        connection.send_bytes(packed(("error", Fault.of(error))))
        return
    while True:
        try:
            method, arguments = unpacked(connection.recv_bytes())
            connection.send_bytes(packed(_answer(workshop, method, arguments)))
        except (EOFError, ConnectionError):
            return


def _answer(workshop: Workshop, method: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "done", getattr(workshop, method)(*arguments)
    except Exception as error:
        return "error", Fault.of(error)


def end_with_parent(parent: int) -> None:
    """End this process when the engine's process is gone, even in the middle of a job.

    Linux does this on request (prctl, PR_SET_PDEATHSIG); elsewhere a thread polls.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Read the socket, the recipe's file and the engine's process id from the command line."""
    descriptor, recipe, parent = (int(argument) for argument in sys.argv[1:])
    end_with_parent(parent)
    torch.set_num_threads(1)
    keep_freed_memory()
    serve(Connection(descriptor), recipe)


if __name__ == "__main__":
    main()

"""A worker process of the process engine: ``python -m fedgrain.engines.worker_process``.

It receives the federation once, and then answers one job after the other over a socket: the
name of a job (:func:`_jobs_of`) and its arguments. It ends when the engine's process ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from fedgrain.engines import ClientTrainer, ModelSpec, Validator
from fedgrain.engines.allocator import keep_freed_memory
from fedgrain.engines.pickles import packed, unpacked
from fedgrain.engines.shared_images import MappedImages
from fedgrain.federated.faults import Fault
from fedgrain.federated.federation import Federation
from fedgrain.federated.settings import TrainingSettings

_WATCH_SECONDS = 0.5


@dataclass(frozen=True, eq=False)
class Recipe:
    """What a worker needs to build the engine's trainer; images are given by their location."""

    federation: Federation  # its source without images
    images: MappedImages
    spec: ModelSpec
    settings: TrainingSettings
    device: str

    def trainer(self) -> ClientTrainer:
        """Build the trainer on the mapped images."""
        source = self.federation.source.on(self.images.open())
        federation = replace(self.federation, source=source)
        return ClientTrainer(federation, self.spec, self.settings, self.device)


def _jobs_of(trainer: ClientTrainer) -> dict[str, Callable[..., Any]]:
    """Return what a worker does, by the name of the job."""
    validator = Validator(trainer.federation, trainer.model)
    return {
        "train": trainer.train,
        "predict_leaves": validator.predict_leaves,
        "predict_leaves_by_branches": validator.predict_leaves_by_branches,
        "validate_branch": validator.validate_branch,
    }


def serve(connection: Connection, recipe: int) -> None:
    """Answer jobs until the engine closes the connection."""
    try:
        jobs = _jobs_of(unpacked(os.pread(recipe, os.fstat(recipe).st_size, 0)).trainer())
        connection.send_bytes(packed(("ready", None)))
    except Exception as error:
        connection.send_bytes(packed(("error", Fault.of(error))))
        return
    while True:
        try:
            name, arguments = unpacked(connection.recv_bytes())
            connection.send_bytes(packed(_answer(jobs, name, arguments)))
        except (EOFError, ConnectionError):
            return


def _answer(
    jobs: Mapping[str, Callable[..., Any]], name: str, arguments: tuple[Any, ...]
) -> tuple[str, Any]:
    try:
        return "done", jobs[name](*arguments)
    except Exception as error:
        return "error", Fault.of(error)


def _end_with_parent(parent: int) -> None:
    """End this process when the engine's process is gone, even in the middle of a job.

    Linux does this on request (prctl, PR_SET_PDEATHSIG); elsewhere a thread polls.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Read the socket, the recipe's file and the engine's process id from the command line."""
    descriptor, recipe, parent = (int(argument) for argument in sys.argv[1:])
    _end_with_parent(parent)
    torch.set_num_threads(1)
    keep_freed_memory()
    serve(Connection(descriptor), recipe)


if __name__ == "__main__":
    main()

"""The raw bound: the same clients and steps on the same number of processes, and no engine.

Persistent one-thread processes with plain loops. All images lie ready as normalised floats in one
channels_last tensor, every task is assigned before the round begins (longest first, to the process
with the least work), and nothing is checked, averaged, logged or validated: a round ends when the
last weights are back.
"""

from __future__ import annotations

import heapq
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedgrain.engines import ClientTrainer
from fedgrain.engines.allocator import keep_freed_memory
from fedgrain.federated import LocalSettings, Task
from fedgrain.randomness import numpy_generator, torch_generator_from

Key = tuple[int, int | None]  # client, branch
Piece = tuple[np.ndarray, np.ndarray]  # rows of the images, targets
READY_LIMIT = 120.0  # seconds
TASK_LIMIT = 300.0  # seconds without any answer


@dataclass(frozen=True)
class Job:
    """One task as a process sees it."""

    number: int
    key: Key
    round: int
    weights: int  # which of the weights sent along


def longest_first(sizes: Sequence[int], workers: int) -> list[list[int]]:
    """Give each task, longest first, to the worker with the least work so far."""
    loads = [(0, worker) for worker in range(workers)]
    shares: list[list[int]] = [[] for _ in range(workers)]
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        load, worker = heapq.heappop(loads)
        shares[worker].append(number)
        heapq.heappush(loads, (load + sizes[number], worker))
    return shares


def plain_net(outputs: int) -> nn.Module:
    """Return cnn-32 as anyone would write it, with the pool before the ReLU."""
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 5), nn.MaxPool2d(2), nn.ReLU(inplace=True)),
        *(nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU(inplace=True)),
        *(nn.Flatten(), nn.Linear(1600, outputs)),
    ).to(memory_format=torch.channels_last)


def train_plainly(
    net: nn.Module,
    weights: list[np.ndarray],
    images: torch.Tensor,
    piece: Piece,
    settings: LocalSettings,
    generator: np.random.Generator,
) -> list[np.ndarray]:
    """Load weights, permute, step through the batches, return the weights."""
    rows, targets = torch.from_numpy(piece[0]), torch.from_numpy(piece[1])
    parameters = list(net.parameters())
    with torch.no_grad():
        for parameter, value in zip(parameters, weights, strict=True):
            parameter.copy_(torch.from_numpy(value))
    optimizer = torch.optim.SGD(parameters, lr=settings.lr, fused=True)
    order = torch.from_numpy(generator.permutation(len(rows)))
    for chosen in order.split(settings.batch):
        optimizer.zero_grad()
        batch = images[rows[chosen]].permute(0, 3, 1, 2)
        functional.cross_entropy(net(batch), targets[chosen]).backward()
        optimizer.step()
    return [parameter.detach().numpy() for parameter in parameters]


def serve(
    connection: Connection,
    images: Path,
    pieces: dict[Key, Piece],
    settings: LocalSettings,
    seed: int,
) -> None:
    """Be one process: train the share of every round until the pipe closes."""
    torch.set_num_threads(1)
    keep_freed_memory()  # a loop that is slowed down by its heap is no bound
    stored = torch.from_numpy(np.load(images, mmap_mode="c"))  # [images, height, width, channels]
    net_of = cache(plain_net)
    connection.send("ready")
    try:
        while True:
            jobs, weights = connection.recv()
            for job in jobs:
                start = weights[job.weights]
                net = net_of(len(start[-1]))
                client, branch = job.key
                purpose = "local training" if branch is None else "branch training"
                more = () if branch is None else (branch,)
                generator = numpy_generator(seed, purpose, job.round, client, *more)
                torch_generator_from(generator)  # the draw that would seed a net's dropout
                piece = pieces[job.key]
                result = train_plainly(net, start, stored, piece, settings, generator)
                connection.send((job.number, result))
    except (EOFError, OSError, KeyboardInterrupt):
        return


class RawBound:
    """The processes; a context manager, so that none is left behind."""

    def __init__(
        self,
        images: Path,
        pieces: dict[Key, Piece],
        settings: LocalSettings,
        *,
        seed: int,
        workers: int,
    ) -> None:
        self.pieces, self._arguments = pieces, (images, pieces, settings, seed)
        self._workers = workers
        self._processes: list[Any] = []
        self._connections: list[Connection] = []

    def __enter__(self) -> RawBound:
        context = multiprocessing.get_context("spawn")
        for _ in range(self._workers):
            ours, theirs = context.Pipe()
            arguments = (theirs, *self._arguments)
            process = context.Process(target=serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._connections.append(ours)
        for connection in self._connections:
            if not connection.poll(READY_LIMIT):
                raise RuntimeError("a process of the raw bound did not start")
            connection.recv()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.join(5 if kind is None else 0)
            if process.is_alive():
                process.kill()
                process.join()

    def round(self, tasks: Sequence[Task]) -> tuple[float, list[list[np.ndarray]]]:
        """Train the tasks; return the seconds it took and the weights of each."""
        known: dict[int, int] = {}
        weights: list[list[np.ndarray]] = []
        for task in tasks:  # the same weights are converted, and sent to a process, once
            if id(task.weights) not in known:
                known[id(task.weights)] = len(weights)
                weights.append([value.numpy() for value in task.weights.values()])
        jobs = [
            Job(number, (task.client, task.branch), task.round, known[id(task.weights)])
            for number, task in enumerate(tasks)
        ]
        shares = longest_first([len(self.pieces[job.key][0]) for job in jobs], self._workers)
        began = time.perf_counter()
        for connection, share in zip(self._connections, shares, strict=True):
            needed = {jobs[number].weights for number in share}
            sent = {number: weights[number] for number in needed}
            connection.send(([jobs[number] for number in share], sent))
        results: list[list[np.ndarray]] = [[] for _ in jobs]
        for _ in range(len(jobs)):
            ready = wait(self._connections, TASK_LIMIT)
            if not ready:
                raise RuntimeError(f"the raw bound gave no answer for {TASK_LIMIT:.0f} s")
            number, result = ready[0].recv()  # type: ignore[union-attr]
            results[number] = result
        return time.perf_counter() - began, results


def pieces_of(trainer: ClientTrainer, branches: Sequence[int | None]) -> dict[Key, Piece]:
    """Return the rows and targets of every client, of the whole or of each branch."""
    found: dict[Key, Piece] = {}
    for client in range(len(trainer.federation.clients)):
        for branch in branches:
            if branch is None:
                data = trainer.whole_data(client)
                targets = trainer.model.head.leaf_position[data.targets]  # type: ignore[index]
            else:
                data = trainer.branch_data(client, branch)
                targets = data.targets
            found[client, branch] = (data.indices, targets.numpy())  # type: ignore[union-attr]
    return found

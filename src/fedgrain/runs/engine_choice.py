"""Where the clients of a run train on this machine: how many processes, and which device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fedgrain.catalogue import algorithm as algorithm_entry
from fedgrain.cores import workers_wanted
from fedgrain.engines import ClientTrainer, SequentialEngine
from fedgrain.engines.processes import ProcessEngine
from fedgrain.engines.shared_images import shared
from fedgrain.errors import ConfigError
from fedgrain.federated import Engine
from fedgrain.federated.sampling import joining
from fedgrain.preparation.prepare import Prepared


def number_of_workers(wanted: int | str, prepared: Prepared) -> int:
    """Return the number of training processes, at most the clients in a round."""
    count = workers_wanted(wanted)
    pairs = joining(len(prepared.federation.clients), prepared.settings.join_ratio)
    if algorithm_entry(prepared.algorithm).by_branch:  # all branches train at the same time
        pairs *= len(prepared.federation.taxonomy.internal)
    return min(count, pairs)


def device_named(wanted: str) -> str:
    """Return the device to train on; "auto" is CUDA where there is one."""
    there = torch.cuda.is_available()
    if wanted == "auto":
        return "cuda" if there else "cpu"
    kind, _, number = wanted.partition(":")
    if kind not in ("cpu", "cuda") or not (number.isdecimal() or kind == wanted):
        raise ConfigError(f"device {wanted!r} does not exist; choose cpu, cuda or auto")
    if kind == "cuda" and not there:
        raise ConfigError("device cuda was asked for, but torch finds none; choose cpu or auto")
    return wanted


def trainer_of(prepared: Prepared, workers: int, device: str) -> tuple[Prepared, ClientTrainer]:
    """Return what trains the clients; several workers share the images, which then move."""
    if workers > 1:
        prepared = prepared.with_rows(shared(prepared.federation.source.array))
    trainer = ClientTrainer(prepared.federation, prepared.spec, prepared.settings, device)
    if algorithm_entry(prepared.algorithm).by_branch:
        _ = trainer.model.branch_nets  # refuse now a net that cannot be decoupled
    return prepared, trainer


@contextmanager
def engine_of(trainer: ClientTrainer, workers: int, time_limit: float | None) -> Iterator[Engine]:
    """Provide the engine for this many workers; one worker trains in this process."""
    if workers == 1:
        yield SequentialEngine(trainer)
        return
    with ProcessEngine(trainer, workers, time_limit) as engine:
        yield engine

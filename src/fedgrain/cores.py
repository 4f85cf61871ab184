"""How many processes fit on this machine, and a map over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def process_map(workers: int | None = None) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yield a ``map`` over processes, one per core by default; over none with one worker.

    Processes are spawned: forking a process that runs threads (torch has some) may hang. A process
    that ends unexpectedly raises ``BrokenProcessPool``.
    """
    workers = available_cores() if workers is None else workers
    if workers == 1:
        yield map
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    try:
        pool = ProcessPoolExecutor(workers, context, initializer=_leave_interrupts_to_the_parent)
    except OSError:  # a pool needs semaphores in /dev/shm, which may be read-only
        yield map
        return
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)

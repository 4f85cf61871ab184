"""How many processes fit on this machine, and a map over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fedgrain.errors import ConfigError


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers_wanted(wanted: int | str = "auto") -> int:
    """Return how many processes to start; "auto" is FEDGRAIN_WORKERS, or one per core."""
    if wanted == "auto":
        wanted = os.environ.get("FEDGRAIN_WORKERS") or available_cores()
    try:
        count = int(wanted)
    except ValueError:
        raise ConfigError(f"workers is {wanted!r}, but must be a number or auto") from None
    if count < 1:
        raise ConfigError(f"workers is {count}, but at least 1 is needed")
    return count


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


def refuse_in_a_second_run_of_the_script() -> None:
    """Raise an error where a spawned process runs the script that started it once more.

    Python does so before the process begins its work, unless the script's own work is below
    ``if __name__ == '__main__':``. There it would wait for what its parent has locked, for ever.
    """
    import multiprocessing

    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ConfigError(
            "your script runs once more in every process it starts; call fedgrain below "
            "`if __name__ == '__main__':`"
        )


def _leave_interrupts_to_the_parent() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)

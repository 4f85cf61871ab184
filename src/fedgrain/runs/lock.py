"""The lock of a folder: one process works in it at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedgrain.errors import RunError
from fedgrain.files import open_own


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold a lock file; raise an error at once if another process holds it."""
    try:
        descriptor = open_own(lock, os.O_RDWR)
    except FileNotFoundError:  # the folder went away in between
        raise RunError(f"{lock.parent}: another process was just here; try again") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{lock.parent}: another process is running here; wait for it to end"
            ) from None
        if not lock.exists() or not os.path.samestat(os.fstat(descriptor), lock.stat()):
            raise RunError(f"{lock.parent}: another process was just here; try again")
        yield
    finally:
        os.close(descriptor)

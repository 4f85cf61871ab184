"""Keep freed memory for the next training step instead of returning it to the system.

A training step takes and frees tensors of some megabytes. By its defaults the GNU C library may
return them to the kernel when they are freed, and get them back one zeroed page at a time. Whether
it does depends on the heap's layout: a process of many short tasks is often slowed down, a simple
loop is mostly not.
"""

from __future__ import annotations

import ctypes

# numbers and limits of mallopt(3)
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_NEVER = 2**31 - 1  # bytes free at the end of the heap before it shrinks
_LARGEST = 32 * 2**20  # bytes from which a block is mapped on its own; more is refused


def keep_freed_memory() -> None:
    """Let this process keep the memory it frees; it stays at its peak size.

    Only for our own training processes, not for a user's. Bits do not change: torch aligns every
    tensor in the same way. Without the GNU C library this does nothing.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, _NEVER)
        set_option(_MMAP_THRESHOLD, _LARGEST)

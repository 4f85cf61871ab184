"""Damage to files, for tests: single bits, all over a file."""

from collections.abc import Iterator
from pathlib import Path


def flips(path: Path, count: int = 60) -> Iterator[int]:
    """Flip one bit at a time in a file: both ends, and places all over it; yield where."""
    whole = path.read_bytes()
    ends = {*range(min(100, len(whole))), *range(max(0, len(whole) - 100), len(whole))}
    for place in sorted(ends | {len(whole) * n // count for n in range(count)}):
        raw = bytearray(whole)
        raw[place] ^= 1 << place % 8
        path.write_bytes(raw)
        yield place
    path.write_bytes(whole)

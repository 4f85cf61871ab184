"""Random numbers derived from (seed, purpose, numbers), never from global state."""

from __future__ import annotations

import hashlib

import numpy as np


def numpy_generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """Return a generator of its own for a purpose, such as ("partition") or ("batches", round, client).

    Streams of different purposes are independent, so that adding a draw in one place changes
    nothing elsewhere; the purpose enters by SHA-256, so that PYTHONHASHSEED has no say.
    """
    digest = hashlib.sha256(purpose.encode()).digest()
    words = [int.from_bytes(digest[start : start + 4], "little") for start in range(0, 16, 4)]
    return np.random.default_rng(np.random.SeedSequence([seed, *words, *numbers]))

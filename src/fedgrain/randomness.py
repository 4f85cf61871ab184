"""Random numbers derive from (seed, purpose, round, client, ...), never from global state."""

from __future__ import annotations

import hashlib

import numpy as np


def numpy_generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """Return the generator of one purpose: the same bits whatever else was drawn before."""
    word = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, word, *numbers])))

"""Random numbers derive from (seed, purpose, round, client, ...), never from global state."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

__all__ = ["numpy_generator", "torch_generator_from"]


def numpy_generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """Return the generator of one purpose; its bits do not depend on other draws."""
    word = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, word, *numbers])))


def torch_generator_from(
    generator: np.random.Generator, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Return a torch generator seeded by the next draw of a NumPy one."""
    import torch

    return torch.Generator(device).manual_seed(int(generator.integers(2**63 - 1)))

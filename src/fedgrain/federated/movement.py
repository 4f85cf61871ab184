"""How far each client moved the model in a round, and whether in the direction of the others.

Updates are averaged as they arrive and not kept. Of each only a sketch stays: its entries, with
random signs, summed up in ``WIDTH`` buckets (Charikar et al. 2002). Inner products of sketches are
those of the updates but for chance, so a cosine is right to about 1 / sqrt(WIDTH), and exact for
models with at most ``WIDTH`` weights.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from fedgrain.federated.averaging import State
from fedgrain.randomness import numpy_generator

WIDTH = 4093  # a prime: no layer's rows are as long
_DIGITS = 6

Sketch = NDArray[np.float64]  # [WIDTH]


class Movements:
    """The updates of one round, or of one branch's round."""

    def __init__(self) -> None:
        self._sketches: dict[int, Sketch] = {}
        self._norms: dict[int, float] = {}
        self._weights: dict[int, float] = {}

    def add(
        self, client: int, before: State, after: State, samples: float, trained: AbstractSet[str]
    ) -> None:
        """Add a client's update: the way from the weights it was sent to those it returned."""
        names = sorted(name for name in before if name in trained)
        parts = [(after[name] - before[name]).reshape(-1).float() for name in names]
        update = torch.cat(parts).cpu().numpy() if parts else np.zeros(1, np.float32)
        self._sketches[client] = sketch(update)
        self._norms[client] = float(np.sqrt(np.square(update, dtype=np.float64).sum()))
        self._weights[client] = samples

    def lines(self) -> dict[int, dict[str, float | None]]:
        """Return, for each client, the length of its update and its cosine with the others'.

        The others are averaged by their samples. Without others, or without any way, it is None.
        """
        total = sum((self._weights[c] * s for c, s in self._sketches.items()), np.zeros(WIDTH))
        found: dict[int, dict[str, float | None]] = {}
        for client, own in self._sketches.items():
            others = total - self._weights[client] * own
            lengths = float(np.linalg.norm(own)) * float(np.linalg.norm(others))
            alone = len(self._sketches) == 1 or lengths == 0
            cosine = None if alone else round(float(own @ others) / lengths, _DIGITS)
            found[client] = {"moved": round(self._norms[client], _DIGITS), "agrees": cosine}
        return found


def sketch(update: NDArray[np.float32]) -> Sketch:
    """Return an update with random signs, folded into buckets."""
    signed = update * _signs(len(update))
    missing = -len(signed) % WIDTH
    folded = np.pad(signed, (0, missing)).reshape(-1, WIDTH)
    return np.asarray(folded.sum(axis=0, dtype=np.float64))


@lru_cache(maxsize=4)
def _signs(length: int) -> NDArray[np.int8]:
    """Return as many signs; the same in every run, so that rounds can be compared."""
    drawn = numpy_generator(0, "signs of a sketch").integers(0, 2, length, dtype=np.int8)
    return np.asarray(2 * drawn - 1, dtype=np.int8)

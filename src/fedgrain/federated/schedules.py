"""Learning-rate schedules over rounds: what the rate of a round is multiplied by.

The factor depends only on the number of the round, so a resumed run has the same one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """A schedule by name.

    ``constant`` is 1. ``step`` is multiplied by ``factor`` after every ``every`` rounds. ``cosine``
    falls from 1 towards 0 over the planned rounds (Loshchilov and Hutter 2017, without restarts):
    (1 + cos(pi (round - 1) / planned)) / 2.

    >>> [Schedule("step", every=2, factor=0.5).at(number, 6) for number in range(1, 6)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    >>> [round(Schedule("cosine").at(number, 4), 3) for number in range(1, 5)]
    [1.0, 0.854, 0.5, 0.146]
    """

    name: str = "constant"
    every: int = 30
    factor: float = 0.1

    def at(self, number: int, planned: int) -> float:
        """Return the factor of a round, counted from 1, of so many planned rounds."""
        if self.name == "step":
            return float(self.factor ** ((number - 1) // self.every))
        if self.name == "cosine":
            return (1.0 + math.cos(math.pi * min(number - 1, planned) / planned)) / 2.0
        return 1.0

"""How often a label must occur before its labeller counts as knowing it.

One stray *oak* must not turn every *tree* of a labeller into "not an oak", so a label normally has
to occur twice. But who has few images of each of many classes names most of them once. Then the
labels that occur once are far more than slips explain, and they count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SLIPS = 0.01  # share of labels that are slips, such as a wrong line or a wrong click
_DEVIATIONS = 2.0  # how far above the expected number of slips chance may lead


@dataclass(frozen=True)
class Inference:
    """What was inferred about one labeller, and why."""

    labels: int  # that it wrote
    once: int  # different labels that occur once
    slips: int  # how many of these slips explain
    min_count: int  # how often a label must occur to count as known

    @property
    def reason(self) -> str:
        """Why labels that occur once count, or do not."""
        if not self.once:
            return "no label occurs once"
        if self.min_count == 1:
            return f"{self.once} labels occur once, too many for slips of the pen: counted as known"
        return f"{self.once} labels occur once, perhaps slips of the pen: not counted as known"


def infer(counts: NDArray[np.int64], min_count: int | None = None) -> Inference:
    """Decide how often a label must occur, from one labeller's counts of labels [nodes].

    With ``min_count`` it is that. Otherwise 1 if more labels occur once than slips explain, which
    is one in a hundred labels and two standard deviations of chance, but at least one; else 2.

    >>> infer(np.array([0, 300, 300, 1])).min_count, infer(np.ones(1911, np.int64)).min_count
    (2, 1)
    """
    labels, once = int(counts.sum()), int((counts == 1).sum())
    expected = _SLIPS * labels
    slips = max(1, math.floor(expected + _DEVIATIONS * math.sqrt(expected)))
    return Inference(labels, once, slips, min_count or (1 if once > slips else 2))

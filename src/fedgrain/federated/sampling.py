"""Which clients take part in a round."""

from __future__ import annotations

from collections.abc import Sequence

from fedgrain.randomness import numpy_generator


def joining(clients: int, ratio: float) -> int:
    """Return how many clients take part in a round: the ratio of them, rounded, at least one."""
    return max(1, int(ratio * clients + 0.5))


def sample(
    eligible: Sequence[int], count: int, seed: int, purpose: str, *numbers: int
) -> list[int]:
    """Draw ``count`` of the eligible clients, or all if they are fewer; in ascending order."""
    if len(eligible) <= count:
        return sorted(eligible)
    generator = numpy_generator(seed, purpose, *numbers)
    chosen = generator.choice(len(eligible), size=count, replace=False)
    return sorted(eligible[number] for number in chosen.tolist())

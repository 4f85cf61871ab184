"""Limits on what a site can claim: its counts and updates are compared with the other sites'.

The limits do not affect honest sites, however uneven they are: see docs/deploy.md for the figures
and the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from fedgrain.federated.engine import Task, distance
from fedgrain.federated.faults import Fault, Kind
from fedgrain.federated.local_training import Update

TIMES_MEDIAN = 100  # how many times the others' median count a site may claim
_FARTHER = 10  # how many times the others' median distance an update may move, per step
_NEAR = 0.1  # of the model's norm; an update that moves less is never an outlier
FEWEST = 3  # fewest updates that are compared with each other

Score = tuple[float, float]  # mean, samples
Outcome = tuple[Task, Update | Fault]


@dataclass(frozen=True)
class Bounded:
    """A claimed count above the limit, and the count used instead."""

    site: str
    what: str
    claimed: float
    counted: float

    def __str__(self) -> str:
        return f"{self.site} claims {self.claimed:.0f} {self.what}; {self.counted:.0f} are counted"


def count_limit(others: Sequence[float], most: int | None) -> float | None:
    """Return how many samples a site may claim; None if there is nothing to compare with.

    ``most`` is the operator's own limit; without one the other sites' median decides.
    """
    if most is not None:
        return most
    some = [count for count in others if count > 0]
    return TIMES_MEDIAN * median(some) if some else None


def bounded_scores(
    scores: Mapping[int, Mapping[str, Score]], most: int | None, names: Sequence[str]
) -> tuple[list[dict[str, Score]], list[Bounded]]:
    """Return the sites' scores with bounded samples, in their order, and what was bounded."""
    found: list[dict[str, Score]] = []
    notes: list[Bounded] = []
    for client, own in scores.items():
        kept = {}
        for key, (mean, samples) in own.items():
            others = [
                theirs[key][1] for c, theirs in scores.items() if c != client and key in theirs
            ]
            limit = count_limit(others, most)
            if limit is not None and samples > limit:
                notes.append(Bounded(names[client], f"validation samples ({key})", samples, limit))
                samples = float(limit)
            kept[key] = (mean, samples)
        found.append(kept)
    return found, notes


def without_outliers(outcomes: Sequence[Outcome], steps: Callable[[Task], int]) -> list[Outcome]:
    """Replace updates that moved much farther than the others' of the same model by faults.

    A site with more images makes more steps and honestly moves farther, so distances are compared
    per step; ``steps`` follow from the site's accepted count. Fewer than three updates of a model
    are not compared: of two, one cannot know which is wrong.
    """
    updates: dict[int | None, list[tuple[int, float, int]]] = {}
    for number, (task, outcome) in enumerate(outcomes):
        if isinstance(outcome, Update):
            row = (number, distance(outcome.state, task.weights), max(1, steps(task)))
            updates.setdefault(task.branch, []).append(row)
    judged = list(outcomes)
    for rows in updates.values():
        for number, way, own_steps in rows if len(rows) >= FEWEST else ():
            task = outcomes[number][0]
            others = [row for row in rows if row[0] != number]
            typical = median(theirs for _, theirs, _ in others)
            share = max(1.0, own_steps / median(count for _, _, count in others))
            limit = max(_FARTHER * share * typical, _NEAR * distance(task.weights, None))
            if way > limit:
                text = f"its update moved by {way:.3g}, the median of the others by {typical:.3g}"
                judged[number] = (task, Fault(text, Kind.OUTLIER))
    return judged

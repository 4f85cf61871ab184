"""What travels between the server and a site: states, tasks, counts and scores.

A site's answers hold arrays and numbers only. Text of its own never leaves it, since the message of
an error may name a file or a label: a fault is told by the name of its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedgrain.errors import DeploymentError
from fedgrain.federated.averaging import State

WHOLE = "whole"
Models = Mapping[int | None, State]  # by branch; None is the whole model


def record_of(state: State) -> ArrayRecord:
    """Return a state as Flower sends it: every array with its name, type and shape."""
    return ArrayRecord(
        {name: Array(np.array(value.numpy(), order="C")) for name, value in state.items()}
    )


def state_of(record: ArrayRecord) -> State:
    """Return the state that :func:`record_of` sent."""
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}


def key_of(branch: int | None) -> str:
    """Return the name under which a branch, or the whole model, travels."""
    return WHOLE if branch is None else f"branch {branch}"


def by_branch(weights: Mapping[int, State]) -> dict[int | None, State]:
    """Return branches as models of a message."""
    return {branch: state for branch, state in weights.items()}  # noqa: C416 (a wider key)


def branch_of(key: str) -> int | None:
    """Return the branch of a name, None for the whole model."""
    return None if key == WHOLE else int(key.removeprefix("branch "))


def pack(models: Models, **about: int | str) -> RecordDict:
    """Put models into one message, with what is to be done with them."""
    content = RecordDict({"about": ConfigRecord(dict(about))})
    for branch, state in models.items():
        content[key_of(branch)] = record_of(state)
    return content


def unpack(content: RecordDict) -> dict[int | None, State]:
    """Return the models of a message."""
    return {branch_of(key): state_of(record) for key, record in content.array_records.items()}


@dataclass(frozen=True)
class Counts:
    """What a site tells of its data: samples that enter the loss, whole and per branch.

    ``children`` marks, per branch, the children that have data.
    """

    site: str
    whole: int
    branches: dict[int, int]
    children: dict[int, list[int]]

    def record(self) -> RecordDict:
        """Return the counts as an answer."""
        numbers: dict[str, int | list[int]] = {WHOLE: self.whole}
        for branch, count in self.branches.items():
            numbers[key_of(branch)] = [count, *self.children[branch]]
        told = MetricRecord(dict(numbers))
        return RecordDict({"about": ConfigRecord({"site": self.site}), "counts": told})


def counts_of(content: RecordDict) -> Counts:
    """Read the counts a site told; anything malformed is an error of that site."""
    try:
        numbers = dict(content.metric_records["counts"])
        whole = int(numbers.pop(WHOLE))  # type: ignore[arg-type]
        rows = {int(key.removeprefix("branch ")): value for key, value in numbers.items()}
        branches, children = {}, {}
        for branch, row in rows.items():
            assert isinstance(row, list)
            branches[branch], *marks = (int(value) for value in row)
            children[branch] = marks
        assert min(whole, *branches.values()) >= 0
        return Counts(str(content.config_records["about"]["site"]), whole, branches, children)
    except (KeyError, TypeError, ValueError, OverflowError, AssertionError) as error:
        raise DeploymentError(f"its counts cannot be read ({type(error).__name__})") from None


def rounded(count: int, step: int) -> int:
    """Round a count to the nearest multiple of ``step``, half up, as a site tells it.

    >>> [rounded(count, 50) for count in (24, 25, 74, 75)]
    [0, 50, 50, 100]
    >>> rounded(24, 1)
    24
    """
    return (2 * count + step) // (2 * step) * step

"""The messages between the server and a site: states, tasks, counts and scores.

A site's answers contain only arrays and numbers. The text of an error may name a file or a label,
so of a fault only the name of its type is sent.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from torch import nn

from fedgrain.errors import DeploymentError, FederationError
from fedgrain.federated.averaging import State
from fedgrain.federated.local_training import snapshot
from fedgrain.heads import DecoupledModel
from fedgrain.scoring.validation_score import ValidationScore
from fedgrain.taxonomy import Taxonomy
from fedgrain.text import one_line

WHOLE, _CORRECTION = "whole", "correction"
SCORES = ("hf", "leaf hf", "weighted hf")  # the means of a validation score, by these names
MOST_SAMPLES = 10**9  # more than any site has; a larger claim is refused
Models = Mapping[int | None, State]  # by branch; None is the whole model


def record_of(state: State) -> ArrayRecord:
    """Return a state as Flower sends it: every array with its name, type and shape."""
    return ArrayRecord(
        {name: Array(np.array(value.numpy(), order="C")) for name, value in state.items()}
    )


def state_of(record: ArrayRecord, like: State | None = None) -> State:
    """Return the state that :func:`record_of` sent.

    With ``like``, names, types and shapes must equal its own. The arrays' headers are checked
    before anything is decoded: a header cannot make us reserve more memory than was sent.
    """
    if like is not None:
        if record.keys() != like.keys():
            raise DeploymentError("its update has other weights than it was sent")
        for name, value in like.items():
            _check_header(name, record[name], value)
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}


def _check_header(name: str, array: Array, like: torch.Tensor) -> None:
    """Refuse an array of another shape, type or length than a tensor."""
    file = io.BytesIO(array.data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise DeploymentError(f"its {name} is not in the format that was sent")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    wanted = list(like.shape)
    if list(shape) != wanted or dtype != like.numpy().dtype:
        raise DeploymentError(
            f"its update has {name} of shape {list(shape)}, but {wanted} was sent"
            if list(shape) != wanted
            else f"its update has {name} of type {dtype}, but {like.numpy().dtype} was sent"
        )
    if len(array.data) - file.tell() != like.nbytes:
        raise DeploymentError(f"its {name} is cut off or too long")


def key_of(branch: int | None) -> str:
    """Return the key of a branch, or of the whole model, in a message."""
    return WHOLE if branch is None else f"branch {branch}"


def by_branch(weights: Mapping[int, State]) -> dict[int | None, State]:
    """Return branches as models of a message."""
    return {branch: state for branch, state in weights.items()}  # noqa: C416 (a wider key)


def models_of(net: nn.Module) -> dict[int | None, State]:
    """Return the weights of a model, or of each of its branches, as a message holds them."""
    if isinstance(net, DecoupledModel):
        return {int(branch): snapshot(own) for branch, own in net.branches.items()}
    return {None: snapshot(net)}


def _branch_of(key: str) -> int | None:
    """Return the branch of a name, None for the whole model."""
    return None if key == WHOLE else int(key.removeprefix("branch "))


def pack(models: Models, correction: State | None = None, **about: int | str) -> RecordDict:
    """Put models into one message, with instructions."""
    content = RecordDict({"about": ConfigRecord(dict(about))})
    if correction:
        content[_CORRECTION] = record_of(correction)
    for branch, state in models.items():
        content[key_of(branch)] = record_of(state)
    return content


def unpack(content: RecordDict) -> dict[int | None, State]:
    """Return the models of a message."""
    records = content.array_records.items()
    return {_branch_of(key): state_of(record) for key, record in records if key != _CORRECTION}


def correction_of(content: RecordDict) -> State | None:
    """Return the correction to add to every gradient; None if there is none."""
    record = content.array_records.get(_CORRECTION)
    return None if record is None else state_of(record)


@dataclass(frozen=True)
class Counts:
    """A site's report on its data: samples that enter the loss, in all and per branch.

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
        counts = MetricRecord(dict(numbers))
        return RecordDict({"about": ConfigRecord({"site": self.site}), "counts": counts})


def counts_of(content: RecordDict) -> Counts:
    """Read the counts a site sent; anything malformed is an error of that site."""
    try:
        numbers = dict(content.metric_records["counts"])
        whole = whole_number(numbers.pop(WHOLE))
        branches, children = {}, {}
        for key, row in numbers.items():
            if not isinstance(row, list):
                raise TypeError(key)
            branch = int(key.removeprefix("branch "))
            branches[branch], *children[branch] = (whole_number(value) for value in row)
        site = content.config_records["about"]["site"]
    except (KeyError, TypeError, ValueError) as error:
        why = error if isinstance(error, NotACountError) else type(error).__name__
        raise DeploymentError(f"its counts cannot be read ({why})") from None
    return Counts(one_line(site), whole, branches, children)


def check_counts(counts: Counts, registered: str, sites: Sequence[str], taxonomy: Taxonomy) -> None:
    """Refuse a site that is unexpected, registered under another name, or of another tree."""
    if counts.site not in sites:
        raise FederationError(f"it calls itself {counts.site!r}, which is not a site of this app")
    if registered and registered != counts.site:
        name = one_line(registered)
        raise FederationError(f"its key is registered for {name!r}, not {counts.site!r}")
    wanted = {int(e): len(taxonomy.children(e)) for e in taxonomy.internal}
    if {e: len(marks) for e, marks in counts.children.items()} != wanted:
        raise FederationError("its counts are of another taxonomy; give it this app's")


class NotACountError(ValueError):
    """A number that a site sent is not a count of samples."""


def whole_number(value: object) -> int:
    """Return a count that came over the network; raise :class:`NotACountError` if it is not one.

    >>> whole_number(12.0)
    12
    >>> whole_number(1e30)
    Traceback (most recent call last):
    ...
    fedgrain.messages.wire.NotACountError: 1e+30 is not a count of samples
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= MOST_SAMPLES or value != int(value):  # type: ignore
        raise NotACountError(f"{one_line(value, 30)} is not a count of samples")
    return int(value)  # type: ignore[call-overload,no-any-return]


def pairs_of(score: ValidationScore, step: int = 1) -> dict[str, list[float]]:
    """Return a validation score as a site sends it: a mean and its count by name.

    Counts are rounded to multiples of ``step``; the sum of weights, which says almost as much, too.
    """
    counts = (score.samples, score.leaf_samples, score.weight)
    if step > 1:
        counts = (
            rounded(int(score.samples), step),
            rounded(int(score.leaf_samples), step),
            rounded(int(score.weight + 0.5), step),
        )
    means = (score.hf, score.leaf_hf, score.weighted_hf)
    pairs = zip(SCORES, means, counts, strict=True)
    return {name: [mean, float(count)] for name, mean, count in pairs if mean is not None}


def rounded(count: int, step: int) -> int:
    """Round a count to the nearest multiple of ``step``, half up, as a site reports it.

    >>> [rounded(count, 50) for count in (24, 25, 74, 75)]
    [0, 50, 50, 100]
    >>> rounded(24, 1)
    24
    """
    return (2 * count + step) // (2 * step) * step

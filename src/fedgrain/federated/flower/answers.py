"""What the server reads out of a site's answer; what cannot be read costs that site alone."""

from __future__ import annotations

import math
from typing import Any

from flwr.app import Message, MetricRecord, RecordDict

from fedgrain.federated.averaging import State
from fedgrain.federated.client import Update
from fedgrain.federated.engine import Fault, Task, checked
from fedgrain.federated.flower.wire import key_of, state_of

MOST_RELEASES = 10**6  # nonsense beyond
GONE = (3, 4, 5)  # Flower's codes: the message, its answer or the node is not there any more


def fault_of(reply: Message) -> Fault | None:
    """Return why an answer is none, None if it is one."""
    if not reply.has_error():
        failed = reply.content.config_records.get("failed")
        return Fault(f"{failed.get('fault', 'it failed')!s} (see its log)") if failed else None
    if reply.error.code in GONE:
        return Fault("it has left")
    return Fault(f"it failed (Flower's code {reply.error.code}; see its log)")


def outcome_of(task: Task, answer: Message | Fault, told: int) -> Update | Fault:
    """Read one task's update out of a site's answer; what cannot be read is a fault.

    Its weight is the count the site told when it connected: no update can weigh more later.
    """
    if isinstance(answer, Fault):
        return answer
    key = key_of(task.branch)
    try:
        content = answer.content
        if key in content.config_records:
            return Fault(f"{content.config_records[key]['fault']!s} (see its log)")
        state = state_of(content.array_records[key])
        update = _update(state, content.metric_records[f"{key} told"])
    except Exception as error:  # whatever a site sends, it costs its own update alone
        return Fault(f"its answer cannot be read ({type(error).__name__})")
    if update.samples != told:
        return Fault(
            f"its update is of {update.samples} samples, but it told {told}; "
            "if its data has changed, start it again"
        )
    return checked(task, update)


def seconds_of(reply: RecordDict) -> float | None:
    """Return how long a site loaded and worked, if it tells."""
    try:
        told: Any = reply.metric_records["time"]["seconds"]
        return float(told)
    except (KeyError, TypeError, ValueError):
        return None


def _update(state: State, told: MetricRecord) -> Update:
    """Return an update with what was told of it; sites with privacy withhold loss and steps."""
    if "samples" in told:
        alone: Any = told["samples"]
        return Update(state, int(alone), None, None)
    values: Any = told["update"]
    samples, loss, steps = (float(value) for value in values)
    return Update(state, int(samples), loss, int(steps))


def releases_of(reply: RecordDict) -> int:
    """Return how many noised updates a site has sent in this run, as it says; 0 if it does not."""
    try:
        told: Any = reply.metric_records["releases"]["count"]
        return min(int(told), MOST_RELEASES)
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0


def score_of(values: Any) -> tuple[float, float] | None:
    """Read (mean, samples); None if a site sent something that is no score."""
    try:
        mean, samples = (float(value) for value in values)
    except (TypeError, ValueError):
        return None
    return (mean, samples) if 0 <= mean <= 1 and 0 <= samples < math.inf else None

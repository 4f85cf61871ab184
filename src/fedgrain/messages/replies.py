"""Read a site's answer; if it cannot be read, only that site loses its update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flwr.app import Message, MetricRecord, RecordDict

from fedgrain.errors import DeploymentError
from fedgrain.federated.averaging import State
from fedgrain.federated.engine import Task, checked
from fedgrain.federated.faults import Fault, Kind
from fedgrain.federated.local_training import Update
from fedgrain.messages.fingerprints import DECLINED, HEAD
from fedgrain.messages.wire import MOST_SAMPLES, SCORES, key_of, state_of, whole_number
from fedgrain.scoring.validation_score import ValidationScore
from fedgrain.text import one_line

_MOST_RELEASES = 10**6  # a larger claim is refused
_MOST_SECONDS = 1e7
GONE = (3, 4, 5)  # Flower's codes: the message, its answer or the node no longer exists
_HEADER = 1024  # bytes by which an array may be longer than the one that was sent
NAME = 60  # characters of a name that a site gives


def fault_of(reply: Message) -> Fault | None:
    """Return the fault of a reply; None if it is an answer."""
    if not reply.has_error():
        if (no := reply.content.config_records.get(DECLINED)) is not None:
            rule, why = (one_line(no.get(key, "?")) for key in ("rule", "why"))
            return Fault(f"its policy declines, by {rule}: {why}", Kind.DECLINED)
        failed = reply.content.config_records.get("failed")
        return None if failed is None else _as_fault(failed.get("fault", "it failed"))
    if reply.error.code in GONE:
        return Fault("it has left", Kind.GONE)
    return Fault(f"it failed (Flower's code {reply.error.code}; see its log)")


def _as_fault(text: object) -> Fault:
    """Return the fault a site reports: usually the name of an exception."""
    name = one_line(text)
    return Fault(f"{name} (see its log)", exception=name if name.isidentifier() else "")


def unreadable(error: Exception) -> Fault:
    """Return the fault of a site whose answer cannot be read; it loses only its own update."""
    return Fault(f"its answer cannot be read ({type(error).__name__})", Kind.UNREADABLE)


def refused(content: RecordDict, sent: RecordDict, kind: str) -> Fault | None:
    """Return why an answer is refused unread: unexpected or oversized content; None if it is fine.

    This checks only names and lengths; nothing is decoded.
    """
    models = sent.array_records if kind == "train" else {}
    asked = {"train": ["releases"], "query": ["counts"]}.get(kind, ["scores", "calibration"])
    metrics = {"time", *asked}
    metrics |= {f"{key} told" for key in models}
    configs = {"failed", "about", HEAD} | set(models)
    known = ((content.array_records, set(models)), (content.metric_records, metrics),
             (content.config_records, configs))  # fmt: skip
    for records, names in known:
        for key in records.keys() - names:
            return Fault(f"it sent {one_line(key, NAME)!r}, which was not asked for", Kind.REFUSED)
    for key, record in content.array_records.items():
        for name, array in record.items():
            if name not in models[key]:
                return Fault("its update has other weights than it was sent", Kind.MISFIT)
            found, wanted = len(array.data), len(models[key][name].data)
            if found > wanted + _HEADER:
                text = f"its {name} of {key} has {found} bytes, but {wanted} were sent"
                return Fault(text, Kind.REFUSED)
    return None


def outcome_of(task: Task, answer: Message | Fault, reported: int) -> Update | Fault:
    """Read one task's update from a site's answer; an unreadable one is a fault.

    Its samples must be those the site reported when it connected: no update can weigh more later.
    The arrays are removed from the answer, so that they are not in memory twice.
    """
    if isinstance(answer, Fault):
        return answer
    key, content = key_of(task.branch), answer.content
    try:
        if key in content.config_records:
            return _as_fault(content.config_records[key]["fault"])
        record = content.array_records[key]
        del content[key]
        state = state_of(record, task.weights)
        update = _update(state, content.metric_records[f"{key} told"])
    except DeploymentError as error:
        return Fault(str(error), Kind.MISFIT)
    except Exception as error:  # whatever a site sends, it loses only its own update
        return unreadable(error)
    if update.samples != reported:
        text = (
            f"its update is of {update.samples} samples, but it reported {reported}; "
            "if its data has changed, start it again"
        )
        return Fault(text, Kind.REFUSED)
    return checked(task, update)


def seconds_of(reply: RecordDict) -> float | None:
    """Return how long a site loaded and worked, if it reports that."""
    try:
        reported: Any = reply.metric_records["time"]["seconds"]
        seconds = float(reported)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds <= _MOST_SECONDS else None


def _update(state: State, reported: MetricRecord) -> Update:
    """Return an update with its figures; sites with privacy withhold loss and steps."""
    if "samples" in reported:
        return Update(state, whole_number(reported["samples"]), None, None)
    values: Any = reported["update"]
    samples, loss, steps = values
    return Update(state, whole_number(samples), float(loss), whole_number(steps))


def releases_of(reply: RecordDict) -> int:
    """Return how many noised updates a site says it has sent in this run; 0 if it does not say."""
    try:
        return min(whole_number(reply.metric_records["releases"]["count"]), _MOST_RELEASES)
    except (KeyError, TypeError, ValueError):
        return 0


def validation_of(scores: Mapping[str, Any]) -> ValidationScore | None:
    """Read a site's validation score; None if it sent something else.

    The labels that are leaves, and the sum of weights, cannot be more than the labels.
    """
    pairs = {name: score_of(scores[name], whole=name != SCORES[-1]) for name in SCORES
             if name in scores}  # fmt: skip
    if None in pairs.values() or SCORES[0] not in pairs:
        return None
    nothing = (None, 0.0)
    (hf, samples), (leaf_hf, leaves), (weighted_hf, weight) = (
        pairs.get(name) or nothing for name in SCORES
    )
    if hf is None or leaves > samples or weight > samples:
        return None
    return ValidationScore(hf, samples, leaf_hf, leaves, weighted_hf, weight)


def score_of(values: Any, whole: bool = True) -> tuple[float, float] | None:
    """Read (mean, samples), or (mean, weight); None if a site sent something else."""
    try:
        mean, samples = values
        mean, samples = float(mean), float(whole_number(samples) if whole else samples)
    except (TypeError, ValueError, OverflowError):
        return None
    return (mean, samples) if 0 <= mean <= 1 and 0 <= samples <= MOST_SAMPLES else None

"""What a record says of a message: its bytes, its hash, and how far an update went."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedgrain.federated.engine import distance
from fedgrain.messages.wire import state_of
from fedgrain.records.chain import RecordError, mark_of

HEAD = "record"  # in a message: the head of the sender's record, which its hash does not cover
DECLINED = "declined"  # in an answer: the site's policy does not allow it


def fingerprint(content: RecordDict) -> dict[str, Any]:
    """Return the bytes and the hash of a content; both sides find the same."""
    found, size = hashlib.sha256(), 0
    for key in sorted(key for key in content if key != HEAD):
        record = content[key]
        if isinstance(record, ArrayRecord):
            for name, array in record.items():
                about = json.dumps([key, name, array.dtype, list(array.shape), len(array.data)])
                found.update(about.encode() + b"\n" + array.data)
                size += len(array.data)
        else:
            told = json.dumps([key, dict(record)], sort_keys=True).encode()
            found.update(told + b"\n")
            size += len(told)
    return {"bytes": size, "sha256": found.hexdigest()}


def update_norm(sent: RecordDict, answer: RecordDict) -> float | None:
    """Return how far the weights of an answer are from those that were sent, over all models.

    None if there are none, or they are not those that were sent.
    """
    norms = []
    for key, record in answer.array_records.items():
        try:
            start = state_of(sent.array_records[key])
            norms.append(distance(state_of(record, start), start))
        except (ValueError, LookupError, TypeError, EOFError):
            return None
    norm = math.hypot(*norms)
    return norm if norms and math.isfinite(norm) else None


def declined(rule: str, why: str) -> RecordDict:
    """Return the answer of a site whose policy does not allow what a message asks for."""
    return RecordDict({DECLINED: ConfigRecord({"rule": rule, "why": why})})


def head_of(content: RecordDict) -> str | None:
    """Return the mark of the sender's record; None if it sent none that can be read."""
    record: Any = content.config_records.get(HEAD)
    found = record.get("head") if record is not None else None
    try:
        mark_of(str(found))
    except RecordError:
        return None
    return str(found)


def with_head(content: RecordDict, head: str) -> RecordDict:
    """Put the head of the sender's record into a message."""
    content[HEAD] = ConfigRecord({"head": head})
    return content

"""Why an update is lost: kinds of faults, and the log that keeps the traceback of an error."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from fedgrain.errors import CodeError
from fedgrain.files import append_line
from fedgrain.text import one_line

LOG = logging.getLogger("fedgrain.faults")  # tracebacks; silent without a handler
LOG.addHandler(logging.NullHandler())
LONGEST = 500  # characters of a reason


class Kind(StrEnum):
    """The kind of a fault. Decide by this, never by the words of the reason."""

    ERROR = "error"  # training raised an exception
    NOT_FINITE = "not-finite"
    TOO_LARGE = "too-large"  # it moved too far for any model
    OUTLIER = "outlier"  # it moved much farther than the other sites in the same round
    MISFIT = "misfit"  # other names, shapes or types of weights than were sent
    TIME_OUT = "time-out"
    DIED = "died"  # its process ended
    GONE = "gone"  # it is not connected
    REFUSED = "refused"  # it sent something unexpected, or contradicts itself
    DECLINED = "declined"  # the policy of its owner does not allow what was asked
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Fault:
    """Why a client's update was lost: reason, kind, and the type and traceback of an error."""

    reason: str
    kind: Kind = Kind.ERROR
    exception: str = ""
    trace: str = field(default="", compare=False, repr=False)

    @classmethod
    def of(cls, error: Exception) -> Fault:
        """Return the fault of an exception, with its traceback."""
        name = type(error).__name__
        trace = "".join(traceback.format_exception(error))
        return cls(one_line(f"{name}: {error}", LONGEST), Kind.ERROR, name, trace)

    def line(self, client: str) -> dict[str, Any]:
        """Return its entry in ``metrics.jsonl``; the traceback goes to the log."""
        line = {"client": client, "kind": str(self.kind), "fault": self.reason}
        return line | ({"exception": self.exception} if self.exception else {})


class _FaultLog(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def emit(self, record: logging.LogRecord) -> None:
        append_line(self.path, self.format(record))


@contextmanager
def tracebacks_kept(path: Path | None) -> Iterator[None]:
    """Append the tracebacks of clients' errors to a file, created with the first one."""
    if path is None:
        yield
        return
    handler = _FaultLog(path)
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)


def diverged(faults: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there are faults, and all are due to numbers that have grown too large."""
    signs = (Kind.NOT_FINITE, Kind.TOO_LARGE)
    return bool(faults) and all(fault.get("kind") in signs for fault in faults)


def stop_if_code_fails(where: str, faults: Sequence[Mapping[str, Any]]) -> None:
    """Raise if all faults are the same exception: the code is at fault, not a client.

    Call it when no client sent an update.
    """
    names = {fault.get("exception", "") for fault in faults}
    if len(names) != 1 or not all(names):
        return
    first, clients = faults[0], len({fault["client"] for fault in faults})
    who = f"all {clients} clients" if clients > 1 else first["client"]
    raise CodeError(
        f"{where}: {who} failed with the same error, {first['fault']}; this points to the code or "
        "the settings rather than to a client: see faults.log in the run folder, or use --debug"
    )

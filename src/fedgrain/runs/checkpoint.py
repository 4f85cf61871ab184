"""The state of a run between two rounds, in one file that is written whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fedgrain.errors import RunError
from fedgrain.federated.algorithm import Encoded, FederatedAlgorithm
from fedgrain.tensor_files import read_tensors, write_tensors

FORMAT = "fedgrain-state-1"
_REMOVE = "remove it to start the run again"


@dataclass(frozen=True, eq=False)
class RunProgress:
    """The progress of a run: the algorithm's state and its counters."""

    state: Any
    lines: int = 0  # of metrics
    seconds: float = 0.0
    core_seconds: float = 0.0  # of this process and its workers; not of sites elsewhere
    bytes_sent: int = 0  # weights to the clients, and back
    faults: int = 0  # updates that were lost
    retries: int = 0  # of tasks whose worker died
    metrics_sha256: str | None = None  # of those lines; None in states of older versions


def save_progress(path: Path, progress: RunProgress, algorithm: FederatedAlgorithm[Any]) -> None:
    """Write the state; a run killed at any moment finds the last whole one."""
    stored = algorithm.encode(progress.state)
    counted = {field.name: getattr(progress, field.name) for field in fields(RunProgress)[1:]}
    write_tensors(path, stored.tensors, {"format": FORMAT, **stored.about, **counted})


def load_progress(path: Path, algorithm: FederatedAlgorithm[Any]) -> RunProgress:
    """Read what :func:`save_progress` wrote."""
    tensors, about = read_tensors(path, _REMOVE)
    if about.get("format") != FORMAT:
        raise RunError(f"{path}: not the state of a run of this version of fedgrain; {_REMOVE}")
    try:
        state = algorithm.decode(Encoded(tensors, about))
        names = [field.name for field in fields(RunProgress)[1:]]
        return RunProgress(state, **{name: about[name] for name in names if name in about})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{path}: damaged ({error}); {_REMOVE}") from None

"""The state of a run between two rounds, in one file that is written whole or not at all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fedgrain.errors import RunError
from fedgrain.experiment.tensor_files import read_tensors, write_tensors
from fedgrain.federated import EarlyStopping
from fedgrain.federated.averaging import State
from fedgrain.federated.fedavg import FedAvgState
from fedgrain.federated.fedbdft import BranchState, FedBdftState

FORMAT = "fedgrain-state-1"
REMOVE = "remove it to start the run again"


@dataclass(frozen=True, eq=False)
class Progress:
    """Where a run stands: its state, the lines of metrics that belong to it, the time so far."""

    state: FedAvgState | FedBdftState
    lines: int
    seconds: float
    first_stage_rounds: int = 0  # of fedbdft, once its branches are trained
    faults: int = 0  # updates that were lost
    retries: int = 0  # of tasks whose worker died
    metrics_sha256: str | None = None  # of those lines; a state of an older version does not tell


def save_progress(path: Path, progress: Progress) -> None:
    """Write the state; a run killed at any moment finds the last whole one."""
    tensors: dict[str, Tensor] = {}
    about: dict[str, Any] = {
        "format": FORMAT,
        "lines": progress.lines,
        "metrics_sha256": progress.metrics_sha256,
        "seconds": progress.seconds,
        "first_stage_rounds": progress.first_stage_rounds,
        "faults": progress.faults,
        "retries": progress.retries,
    }
    state = progress.state
    if isinstance(state, FedAvgState):
        about |= {"stage": "fedavg", "round": state.round, "stopping": asdict(state.stopping)}
        for name in ("weights", "memory", "mean", "best"):
            _put(tensors, name, getattr(state, name))
    else:
        about |= {"stage": "fedbdft", "cycle": state.cycle, "branches": {}}
        for number, branch in state.branches.items():
            told = {"stopping": asdict(branch.stopping), "rounds": branch.rounds}
            about["branches"][str(number)] = told
            for name in ("weights", "memory", "best"):
                _put(tensors, f"{number}/{name}", getattr(branch, name))
    write_tensors(path, tensors, about)


def load_progress(path: Path) -> Progress:
    """Read what :func:`save_progress` wrote."""
    tensors, about = read_tensors(path, REMOVE)
    if about.get("format") != FORMAT:
        raise RunError(f"{path}: not the state of a run of this version of fedgrain; {REMOVE}")
    try:
        return _progress(tensors, about)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{path}: damaged ({error}); {REMOVE}") from None


def _progress(tensors: State, about: dict[str, Any]) -> Progress:
    state: FedAvgState | FedBdftState
    if about["stage"] == "fedavg":
        parts = {n: _take(tensors, n) for n in ("weights", "memory", "mean", "best")}
        state = FedAvgState(about["round"], stopping=EarlyStopping(**about["stopping"]), **parts)
    else:
        branches = {}
        for number, told in about["branches"].items():
            parts = {n: _take(tensors, f"{number}/{n}") for n in ("weights", "memory", "best")}
            stopping = EarlyStopping(**told["stopping"])
            branches[int(number)] = BranchState(stopping=stopping, rounds=told["rounds"], **parts)
        state = FedBdftState(about["cycle"], branches)
    return Progress(
        state,
        about["lines"],
        about["seconds"],
        about["first_stage_rounds"],
        about.get("faults", 0),  # which earlier versions did not count
        about.get("retries", 0),
        about.get("metrics_sha256"),
    )


def _put(tensors: dict[str, Tensor], prefix: str, state: State) -> None:
    tensors.update({f"{prefix}/{name}": value for name, value in state.items()})


def _take(tensors: State, prefix: str) -> State:
    start = f"{prefix}/"
    return {
        name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)
    }

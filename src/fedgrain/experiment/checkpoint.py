"""The state of a run between two rounds, in one file that is written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from fedgrain.errors import RunError
from fedgrain.federated import EarlyStopping
from fedgrain.federated.averaging import State
from fedgrain.federated.fedavg import FedAvgState
from fedgrain.federated.fedbdft import BranchState, FedBdftState
from fedgrain.files import written_whole

FORMAT = "fedgrain-state-1"


@dataclass(frozen=True, eq=False)
class Progress:
    """Where a run stands: its state, the lines of metrics that belong to it, the time so far."""

    state: FedAvgState | FedBdftState
    lines: int
    seconds: float
    first_stage_rounds: int = 0  # of fedbdft, once its branches are trained
    faults: int = 0  # updates that were lost
    retries: int = 0  # of tasks whose worker died


def save_progress(path: Path, progress: Progress) -> None:
    """Write the state; a run killed at any moment finds the last whole one."""
    tensors: dict[str, Tensor] = {}
    about: dict[str, Any] = {
        "lines": progress.lines,
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
    write_tensors(path, tensors, {"format": FORMAT, "about": json.dumps(about)})


def load_progress(path: Path) -> Progress:
    """Read what :func:`save_progress` wrote."""
    try:
        tensors, metadata = read_tensors(path)
        if metadata.get("format") != FORMAT:
            raise RunError(f"{path}: not the state of a run of this version of fedgrain")
    except RunError as error:
        raise RunError(f"{error}; remove it to start the run again") from None
    about = json.loads(metadata["about"])
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
    )


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors as safetensors, whole or not at all."""
    plain = {
        name: value.clone(memory_format=torch.contiguous_format) for name, value in tensors.items()
    }
    with written_whole(path) as aside:
        aside.write_bytes(save(plain, metadata=metadata))


def read_tensors(path: Path) -> tuple[State, dict[str, str]]:
    """Read tensors and the text beside them."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        return load_file(path), metadata
    except safetensors.SafetensorError as error:
        raise RunError(f"{path}: not a whole safetensors file ({error})") from None
    except FileNotFoundError:
        raise RunError(f"{path}: there is no such file; copy the run folder again") from None
    except OSError as error:  # safetensors tells no name
        raise RunError(f"{path}: cannot be read ({error})") from None


def _put(tensors: dict[str, Tensor], prefix: str, state: State) -> None:
    tensors.update({f"{prefix}/{name}": value for name, value in state.items()})


def _take(tensors: State, prefix: str) -> State:
    start = f"{prefix}/"
    return {
        name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)
    }

"""A run of a second or two, and other processes to run it in."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedgrain import Config
from fedgrain.arithmetic import one_thread
from warm_processes import WarmProcesses

TESTS = Path(__file__).parent
SMALL: dict[str, Any] = {
    "dataset": "own_parts:few_glyphs",
    "net": "own_parts:SmallNet",
    "clients": 4,
    "alpha": 0.5,
    "max_children": 4,
    "batch": 16,
    "lr": 0.1,
    "rounds": 3,
    "cycles": 2,
}


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="session")
def small() -> Callable[..., Config]:
    """Make a config of a small run, with other settings where given."""

    def make(**settings: Any) -> Config:
        return Config(**{**SMALL, **settings})

    return make


@pytest.fixture(scope="session")
def python(warm: WarmProcesses) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script in a process of its own, which finds the tests' own parts."""

    def run(script: str, *arguments: object, **environment: str) -> Any:
        return warm.python("-c", script, *arguments, **{"PYTHONPATH": str(TESTS), **environment})

    return run

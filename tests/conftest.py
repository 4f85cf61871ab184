"""What several test folders share."""

import os
import subprocess
from collections.abc import Callable, Iterator

import fedgrain as _fedgrain  # noqa: F401  # isort: skip - it settles the arithmetic before torch
import pytest
from hypothesis import settings

from warm_processes import WarmProcesses

os.environ.setdefault("FEDGRAIN_WORKERS", "1")  # tests of the engine ask for more themselves
# the same examples every time: sixty, to save time
settings.register_profile(
    "fedgrain", deadline=None, derandomize=True, print_blob=True, max_examples=60
)
settings.load_profile("fedgrain")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmProcesses]:
    """Start processes of their own that have torch loaded already."""
    with WarmProcesses() as processes:
        yield processes


@pytest.fixture(scope="session")
def fedgrain(warm: WarmProcesses) -> Run:
    """Run the command as a user does, in a process of its own (tests/test_wheel.py: installed)."""
    return warm.fedgrain

"""What several test folders share."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fedgrain as _fedgrain  # noqa: F401  # isort: skip - it settles the arithmetic before torch
import pytest
from hypothesis import settings

os.environ.setdefault("FEDGRAIN_WORKERS", "1")  # tests of the engine ask for more themselves
settings.register_profile("fedgrain", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fedgrain")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def fedgrain() -> Run:
    """Run the installed command as a user does, in a process of its own."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("fedgrain")), *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            check=False,
        )

    return run

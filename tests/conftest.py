"""What several test folders share."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fedgrain", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fedgrain")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def fedgrain() -> Run:
    """Run the installed command as a user does, in a process of its own."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        import os

        return subprocess.run(
            [str(Path(sys.executable).with_name("fedgrain")), *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            check=False,
        )

    return run

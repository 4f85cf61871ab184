"""One finished run, shared by the tests of exports."""

from pathlib import Path

import pytest

import fedgrain
from run_fixtures import alone, python, small

__all__ = ["alone", "python", "small"]


@pytest.fixture(scope="session")
def run_folder(small, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "run"
    fedgrain.run(small(rounds=1), folder)
    return folder

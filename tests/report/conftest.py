"""Folders to report on, made once."""

import pytest

from reported_runs import FOLDER, train_one, write_study


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    return train_one(tmp_path_factory.mktemp("trained") / FOLDER)


@pytest.fixture(scope="session")
def study_folder(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies") / "small"
    write_study(folder, trained)
    return folder


@pytest.fixture(scope="session")
def large_study_folder(trained, tmp_path_factory):
    """300 runs of 100 rounds."""
    folder = tmp_path_factory.mktemp("studies") / "large"
    write_study(folder, trained, methods=5, alphas=6, seeds=10, rounds=100)
    return folder

"""Cores and memory that a policy allows: the worker is held to them by the operating system."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from fedgrain.policy.site_policy import read_policy
from fedgrain.sites.guard import limit_work


def in_a_copy(check: Callable[[], bool]) -> bool:
    """Run a check in a copy of this process, whose limits end with it."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    code = 1
    try:
        code = 0 if check() else 2
    finally:
        os._exit(code)


def refused(size: int) -> bool:
    try:
        return not bytearray(size)
    except MemoryError:
        return True


def test_cores_and_memory(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('[work]\ncores = 1\nmemory = "3 GB"\n')
    policy = read_policy(tmp_path / "site.toml")
    before = os.sched_getaffinity(0)

    def limited() -> bool:
        limit_work(policy)
        limit_work(policy)  # as with every message
        one_core = os.sched_getaffinity(0) == {min(before)}
        return one_core and refused(4 * 10**9) and not refused(10**6)

    assert in_a_copy(limited)
    assert os.sched_getaffinity(0) == before


def test_a_limit_that_is_taken_out_ends(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('[work]\ncores = 1\nmemory = "3 GB"\n')
    (tmp_path / "free.toml").write_text("")
    before = os.sched_getaffinity(0)

    def freed() -> bool:
        limit_work(read_policy(tmp_path / "site.toml"))
        limit_work(read_policy(tmp_path / "free.toml"))
        return os.sched_getaffinity(0) == before and not refused(4 * 10**9)

    assert in_a_copy(freed)


def test_without_limits_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("")
    policy = read_policy(tmp_path / "site.toml")
    before = os.sched_getaffinity(0)

    def free() -> bool:
        limit_work(policy)
        return os.sched_getaffinity(0) == before and not refused(10**8)

    assert in_a_copy(free)

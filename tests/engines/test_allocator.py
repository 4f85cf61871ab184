"""Freed memory is kept: measured in page faults of a process of its own."""

import subprocess
import sys

import pytest

from fedgrain.engines import allocator

STEPS = """
import resource
import runpy
import sys
import numpy as np

if sys.argv[1] == "kept":  # from its file: the package would load torch
    runpy.run_path(sys.argv[2])["keep_freed_memory"]()

def step():
    held = [np.ones(20 * 2**20, np.uint8) for _ in range(3)]

step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 10)
"""


def faults_per_step(mode: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", STEPS, mode, allocator.__file__],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is the GNU C library's")
def test_a_step_gets_the_memory_of_the_last_one():
    assert faults_per_step("given back") > 1000  # else the test shows nothing
    assert faults_per_step("kept") < 100

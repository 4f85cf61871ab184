"""What ``make`` installs: the demo needs fedgrain alone, the rest comes on top of it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYTHON = """#!/bin/sh
echo "$(basename "$0") $*" >> "{log}"
if [ "$2" = venv ]; then
  rm -rf .venv && mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/fedgrain
fi
"""


@pytest.fixture
def make(tmp_path):
    """``make`` in a copy of what it reads, with a Python that writes down its calls."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
        os.utime(tmp_path / name, (1e9, 1e9))
    log, python = tmp_path / "log", tmp_path / "python3"
    python.write_text(PYTHON.format(log=log))
    python.chmod(0o755)

    def called(*targets):
        log.write_text("")
        done = subprocess.run(
            ["make", f"PYTHON={python}", *targets], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return log.read_text()

    return called


def test_the_demo_installs_fedgrain_and_no_more(make):
    first = make("demo")
    assert "--editable ." in first and "[dev]" not in first
    assert "fedgrain study demo --out demo" in first
    assert "install" not in make("demo")


def test_the_rest_comes_on_top_and_nothing_is_thrown_away(make, tmp_path):
    make("demo")
    tests = make(".venv/.ready")
    assert "--editable .[dev]" in tests and "venv --clear" not in tests
    assert "install" not in make("demo") + make(".venv/.ready")


def test_a_development_environment_will_do(make, tmp_path):
    make(".venv/.ready")
    (tmp_path / ".venv" / ".lean").unlink()  # as an older Makefile left it
    assert "install" not in make("demo") + make(".venv/.ready")


def test_other_requirements_install_again(make, tmp_path):
    make("demo")
    os.utime(tmp_path / ".venv" / ".lean", (1e9, 1e9))
    os.utime(tmp_path / "constraints.txt", (1.1e9, 1.1e9))
    assert "--editable ." in make("demo")

"""The built wheel works without the repository, in an environment that does not know it.

Installing torch takes a minute, so the environment here borrows the dependencies of the tests' own,
from which fedgrain itself, an editable installation, is left out.
"""

import json
import os
import shlex
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from fedgrain.version import __version__

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "fedgrain"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", out, ROOT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> Path:
    """A fresh environment with the wheel, and links to what the wheel depends on."""
    place = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.check_output([python, "-c", where], text=True).strip())
    ours = Path(sysconfig.get_path("purelib"))
    for entry in ours.iterdir():
        if "fedgrain" not in entry.name and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", wheel]
    subprocess.run(install, check=True, capture_output=True)
    return place


def typed(environment: Path, folder: Path, command: str) -> str:
    """Type a command in a folder, with nothing of this process's Python about it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    program, *rest = shlex.split(command)
    done = subprocess.run(
        [environment / "bin" / program, *rest], cwd=folder, env=clean,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_holds_all_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("fedgrain/")}
    files = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == files
    needed = ("py.typed", "pages/templates/report.html.j2", "taxonomy/resources/wordnet-nouns.xz")
    assert {f"fedgrain/{name}" for name in needed} <= held


def test_commands_work_without_the_repository(environment, tmp_path):
    where = typed(environment, tmp_path, "python -c 'import fedgrain; print(fedgrain.__file__)'")
    assert Path(where.strip()).is_relative_to(environment)
    assert typed(environment, tmp_path, "fedgrain --version").strip() == f"fedgrain {__version__}"
    planned = typed(environment, tmp_path, "fedgrain study demo --dry-run").split()
    assert "glyphs-fedbdft-paper-alpha0.9-seed49" in planned
    run = "fedgrain run --clients 20 --join-ratio 0.1 --rounds 1 --workers 2"
    result = json.loads(typed(environment, tmp_path, f"{run} --out run --json"))
    assert result["rounds"] == 1 and result["faults"] == 0
    typed(environment, tmp_path, "fedgrain report run --out report.html")  # reads the templates
    assert (tmp_path / "report.html").stat().st_size > 10_000

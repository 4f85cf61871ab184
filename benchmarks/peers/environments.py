"""An environment for each peer, made once in the user's cache directory and used again."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import torch

from fedgrain.images.places import cache_directory

REQUIREMENTS = {
    "flower": ["flwr[simulation]==1.41.0"],
    "pfl": ["pfl==0.6.0"],
}
INSTALL_LIMIT = 1200.0  # seconds


class PeerError(Exception):
    """A peer that cannot take part; the message is one line."""


def our_torch() -> str:
    """Return the requirement for the torch that runs this: every contender has the same."""
    version = torch.__version__
    return f"torch=={version if version.endswith('+cpu') else version.split('+')[0]}"


def python_of(peer: str) -> Path:
    """Return the interpreter of a peer's environment, made if it is not there yet."""
    folder = cache_directory() / "bench-venvs" / peer
    python, marker = folder / "bin" / "python", folder / "installed.txt"
    wanted = [our_torch(), *REQUIREMENTS[peer]]
    content = "\n".join(wanted) + "\n"
    if python.exists() and marker.exists() and marker.read_text() == content:
        return python
    print(f"{peer}: making an environment in {folder}", file=sys.stderr, flush=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *wanted]
    try:
        if not python.exists():
            venv.create(folder, with_pip=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT)
    except subprocess.TimeoutExpired:
        raise PeerError(f"pip did not finish within {INSTALL_LIMIT:.0f} s") from None
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerError(f"its environment cannot be made: {error}") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise PeerError(f"pip failed: {(errors or ['no reason given'])[-1]}")
    marker.write_text(content)
    return python

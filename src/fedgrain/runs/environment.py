"""The versions and the machine a run was made with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from fedgrain import arithmetic

PACKAGES = ("fedgrain", "numpy", "torch", "pillow", "safetensors")


def environment() -> dict[str, Any]:
    """Return what ``environment.json`` holds of this process."""
    return {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "processor": platform.machine(),
        "arithmetic": arithmetic.in_use(),
        "instructions": torch.backends.cpu.get_cpu_capability(),  # they affect the last bits
        "cores": os.cpu_count(),
        "started_in": str(Path.cwd()),  # relative paths of the config begin here
    }

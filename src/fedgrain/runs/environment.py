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
        "cpu": _cpu(),
        "arithmetic": arithmetic.in_use(),
        "instructions": torch.backends.cpu.get_cpu_capability(),  # they affect the last bits
        "cores": os.cpu_count(),
        "started_in": str(Path.cwd()),  # relative paths of the config begin here
    }


def _cpu() -> str:
    """Return the CPU's maker, family and model: native arithmetic depends on them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        return platform.processor()
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    said = {name.strip(): value.strip() for name, _, value in pairs}
    names = ("vendor_id", "cpu family", "model", "model name", "CPU implementer", "CPU part")
    return ", ".join(f"{name} {said[name]}" for name in names if name in said)

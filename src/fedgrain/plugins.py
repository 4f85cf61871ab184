"""The user's own nets, heads and data sets, named ``module:callable``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from fedgrain.errors import FedgrainError


def load_callable(spec: str, kind: str, error: type[FedgrainError]) -> Callable[..., Any]:
    """Import the callable that ``module:callable`` names; ``kind`` ("net") is for the message."""
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise error(f"{kind} {spec!r} is not of the form module:callable")
    try:
        module = importlib.import_module(module_name)
    except ImportError as problem:
        raise error(
            f"{kind} {spec!r}: cannot import {module_name!r} ({problem}); "
            "install it or add its folder to PYTHONPATH"
        ) from problem
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)  # type: ignore[assignment]
    if not callable(found):
        raise error(f"{kind} {spec!r}: module {module_name!r} has no callable {name!r}")
    return found

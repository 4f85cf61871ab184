"""The user's own nets, heads and data sets, named ``module:callable``."""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedgrain.errors import FedgrainError

Trust = bool | Collection[str]  # all code, none, or what is named
OWN = ("dataset", "knowledge", "net", "head", "algorithm")  # settings that may be module:callable


def named_code(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that name code (``module:callable``), by setting."""
    return {
        name: value
        for name in OWN
        if isinstance(value := settings.get(name), str)
        and ":" in value
        and not (name == "knowledge" and value.endswith(".json"))
        and not (name == "net" and value.startswith("timm:"))
    }


def check_trust(
    settings: Mapping[str, Any], where: str | Path, trust: Trust, error: type[FedgrainError]
) -> None:
    """Refuse code that a file names unless it is trusted: its author may be malicious."""
    for name, spec in named_code(settings).items():
        if trust is True or (trust is not False and spec in trust):
            continue
        raise error(
            f"{where}: its {name} is {spec!r}, code that would run on this machine; if you trust "
            "the author of the file, add --trust-code (in Python: trust_code=True)"
        )


def load_callable(spec: str, kind: str, error: type[FedgrainError]) -> Callable[..., Any]:
    """Import the callable that ``module:callable`` names; ``kind`` ("net") is for the message."""
    found: Callable[..., Any] = load_named(spec, kind, error)
    if not callable(found):
        module_name, _, name = spec.partition(":")
        raise error(f"{kind} {spec!r}: module {module_name!r} has no callable {name!r}")
    return found


def load_named(spec: str, kind: str, error: type[FedgrainError]) -> Any:
    """Import ``module:name``; None if the module has no such name."""
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
    except SyntaxError as problem:
        raise error(
            f"{kind} {spec!r}: {problem.filename}, line {problem.lineno}: {problem.msg}"
        ) from None
    except Exception as problem:
        raise error(
            f"{kind} {spec!r}: {module_name!r} fails when it is imported "
            f"({type(problem).__name__}: {problem})"
        ) from problem
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def call_own(
    spec: str, kind: str, error: type[FedgrainError], *arguments: Any, called_with: str
) -> Any:
    """Call ``module:callable``; ``called_with`` describes its arguments in messages."""
    own = load_callable(spec, kind, error)
    try:
        inspect.signature(own).bind(*arguments)
    except TypeError as problem:
        raise error(f"{kind} {spec!r}: {problem}; it is called with {called_with}") from None
    except ValueError:  # some builtins have no signature to look at
        pass
    with explained_errors(spec, kind, error):
        return own(*arguments)


@contextmanager
def explained_errors(spec: str, kind: str, error: type[FedgrainError]) -> Iterator[None]:
    """Turn exceptions of the user's code into one sentence with file and line; ours pass."""
    try:
        yield
    except FedgrainError:
        raise
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        raise error(
            f"{kind} {spec!r} fails when it is called ({type(problem).__name__}: {problem}; "
            f"{place.filename}, line {place.lineno})"
        ) from problem

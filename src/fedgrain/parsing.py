"""Read untrusted JSON and TOML; every problem is reported in one sentence."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

from fedgrain.errors import FedgrainError

MAX_DEPTH = 100  # levels of lists and objects inside one another
_LARGEST = 2**63 - 1  # what numpy and torch can hold as well
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(
    text: str, where: object, error: type[FedgrainError] = FedgrainError, advice: str = ""
) -> Any:
    """Return the content of a JSON text, or raise ``error`` with the place and the advice."""
    try:
        content = json.loads(text, parse_int=_whole_number)
    except json.JSONDecodeError as found:
        message = f"{where}, line {found.lineno}: not JSON: {found.msg}"
    except RecursionError:
        message = f"{where}: not JSON we read: nested more than {MAX_DEPTH} levels deep"
    except ValueError as found:
        message = f"{where}: {found}"
    else:
        problem = _problem(content) or (_lone_surrogate(content) if _SURROGATE.search(text) else "")
        if not problem:
            return content
        message = f"{where}: {problem}"
    raise error(_with(message, advice))


def parse_toml(
    text: str, where: object, error: type[FedgrainError] = FedgrainError, advice: str = ""
) -> dict[str, Any]:
    """Return the content of a TOML text, or raise ``error`` with the place and the advice."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as found:
        message = f"{where}: not TOML: {found}"
    except RecursionError:
        message = f"{where}: not TOML we read: nested more than {MAX_DEPTH} levels deep"
    except ValueError as found:  # a number of thousands of digits, a date that does not exist
        message = f"{where}: not TOML we read: {str(found).partition(';')[0]}"
    else:
        if not (problem := _problem(content)):
            return content
        message = f"{where}: {problem}"
    raise error(_with(message, advice))


def _with(message: str, advice: str) -> str:
    return f"{message}; {advice}" if advice else message


def _whole_number(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"a whole number of {len(digits)} digits; 19 are the most we read")
    return int(digits)


def _problem(content: Any) -> str:
    """Return the problem with parsed content; empty if there is none."""
    level, depth = [content], 0
    while level:
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
                return f"a whole number of {value.bit_length()} bits; 63 are the most we read"
        level, depth = below, depth + 1
        if depth > MAX_DEPTH:
            return f"nested more than {MAX_DEPTH} levels deep"
    return ""


def _lone_surrogate(content: Any) -> str:
    write: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False).encode
    try:
        write(content).encode()
    except UnicodeEncodeError:
        return "half a character (a lone surrogate such as \\ud800); write the whole character"
    return ""

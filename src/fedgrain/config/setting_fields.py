"""One setting of a run: its description, type and choices, and how TOML writes its value."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from fedgrain.errors import ConfigError

_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}
_SPOKEN = {
    "str": "a text",
    "int": "a whole number",
    "float": "a finite number",
    "bool": "true or false",
}


def setting(default: Any, text: str, choices: tuple[str, ...] = (), own: bool = False) -> Any:
    """Describe a setting and its choices; ``own`` also allows the user's module:callable."""
    return field(default=default, metadata={"help": text, "choices": choices, "own": own})


def check_type(name: str, value: Any, wanted: str) -> None:
    """Refuse a value that is not of the wanted type, such as ``int | None``."""
    if value is None and wanted.endswith("| None"):
        return
    kind = wanted.removesuffix(" | None")
    right = isinstance(value, _TYPES[kind]) and (kind == "bool" or not isinstance(value, bool))
    if not right or (kind == "float" and not math.isfinite(value)):
        raise ConfigError(f"{name} is {value!r}, but must be {_SPOKEN[kind]}")


def check_choice(name: str, value: Any, metadata: Mapping[str, Any]) -> None:
    """Refuse a value that is not among the choices, and name the nearest."""
    choices = metadata["choices"]
    if not choices or value is None or value in choices:
        return
    if metadata["own"] and ":" in value:
        return
    if name == "knowledge" and value.endswith(".json"):
        return
    own = ", or your own as module:callable" if metadata["own"] else ""
    own = ", a file of yours that ends in .json" * (name == "knowledge") + own
    near = difflib.get_close_matches(value, choices, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ConfigError(
        f"{name} {value!r} does not exist; choose one of {', '.join(choices)}{own}{hint}"
    )


def toml_value(value: Any) -> str:
    """Write a value as TOML has it."""
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)

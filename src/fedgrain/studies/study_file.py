"""Read a study from its TOML file, and check the names and types of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedgrain.config.config import Config
from fedgrain.errors import ConfigError, StudyError
from fedgrain.files import read_text
from fedgrain.parsing import parse_toml, refuse_unknown
from fedgrain.studies.study import Study


def read_study(path: str | Path) -> Study:
    """Read a study from a TOML file."""
    try:
        content = parse_toml(read_text(path), path, StudyError)
    except FileNotFoundError:
        raise StudyError(f"{path}: there is no such file") from None
    if not content:
        raise StudyError(f"{path}: the file is empty or was cut off")
    try:
        return study_of({"name": Path(path).stem, **content})
    except (StudyError, ConfigError) as error:
        raise StudyError(f"{path}: {error}") from None


def study_of(content: Mapping[str, Any]) -> Study:
    """Check the names and types of a study's parts and build it."""
    wanted = {part.name: str(part.type) for part in fields(Study)}
    known = [setting.name for setting in fields(Config)]
    refuse_unknown(content, list(wanted), "a part of a study", StudyError)
    values = {name: _typed(name, value, wanted[name]) for name, value in content.items()}
    for table in ("settings", "search_settings"):
        refuse_unknown(values.get(table, {}), known, "a setting of a run", StudyError)
    for method, own in values.get("method_settings", {}).items():
        settings = _typed(f"method_settings.{method}", own, wanted["settings"])
        refuse_unknown(settings, known, "a setting of a run", StudyError)
    return Study(**values)


_KINDS: dict[str, tuple[type, str]] = {"str": (str, "texts"), "int": (int, "whole numbers")}


def _typed(name: str, value: Any, kind: str) -> Any:
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "str" and isinstance(value, str):
        return value
    if kind.startswith("Mapping") and isinstance(value, Mapping):
        return dict(value)
    if not kind.startswith("tuple") or isinstance(value, str) or not isinstance(value, Sequence):
        raise StudyError(f"{name} is {value!r}, but must be {_spoken(kind)}")
    item = kind.removeprefix("tuple[").split(",")[0]
    allowed = (int, float) if item == "float" else _KINDS[item][0]
    if any(not isinstance(v, allowed) or isinstance(v, bool) for v in value):
        raise StudyError(f"{name} is {value!r}, but must be {_spoken(kind)}")
    return tuple(float(v) if item == "float" else v for v in value)


def _spoken(kind: str) -> str:
    if not kind.startswith("tuple"):
        return {"bool": "true or false", "str": "a text"}.get(kind, "a table of settings")
    item = kind.removeprefix("tuple[").split(",")[0]
    return f"a list of {_KINDS[item][1] if item in _KINDS else 'numbers'}"

"""Settings from a file or a text, and in which settings two configs differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgrain.config import defaults
from fedgrain.config.config import PLACES, Config, known_settings
from fedgrain.errors import ConfigError, FedgrainError
from fedgrain.files import read_text
from fedgrain.parsing import parse_toml


def read_config(path: str | Path, on_top: Mapping[str, Any] | None = None) -> Config:
    """Read a config from a TOML file; settings given ``on_top`` replace the file's."""
    content = parse_toml(read_text(path), path, ConfigError)
    if not content:
        raise ConfigError(f"{path}: it has no settings; it is empty or was cut off")
    try:
        return Config(**{**known_settings(content, "a setting"), **(on_top or {})})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def setting_of(text: str) -> tuple[str, Any]:
    """Read KEY=VALUE; the value as TOML, a bare word as a text."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{text!r} is not KEY=VALUE with a setting of fedgrain run")
    known_settings({key: value}, "a setting of fedgrain run")
    try:
        return key, parse_toml(f"value = {value}", key)["value"]
    except FedgrainError:
        return key, value


def differences(one: Config, two: Config) -> list[str]:
    """Return the settings in which two configs differ, with both values; paths are ignored.

    What one of them leaves to the data is no difference.
    """
    mine, other = one.complete().settings(), two.complete().settings()
    later = ("net_weights_sha256", *defaults.left_to_data(one))  # found when the run starts
    left = [name for name in later if None in (mine[name], other[name])]
    deciding = [name for name in mine if name not in (*PLACES, *left)]
    return [f"{n} ({mine[n]} and {other[n]})" for n in deciding if mine[n] != other[n]]

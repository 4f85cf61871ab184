"""``site.toml``: what the owner of a site allows. What the file does not mention is not limited."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fedgrain.config.config import Config
from fedgrain.errors import DeploymentError, FedgrainError
from fedgrain.files import read_text
from fedgrain.parsing import parse_toml, refuse_unknown

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ASK = ("app", "run")
DELTA = 1e-5
_UNITS = {"MB": 10**6, "GB": 10**9}
_FIELDS = {
    "server": ("addresses",),
    "app": ("sha256", "tree"),
    "work": ("rounds", "rounds_in_all", "epochs", "hours", "days", "cores", "memory"),
    "leaves": (
        *("losses", "scores", "counts", "calibration"),
        *("count_rounding", "digits", "noise", "epsilon", "delta"),
    ),
    "ask": ("before",),
}
SECTIONS = (*_FIELDS, "config")


class PolicyError(DeploymentError):
    """A site's policy cannot be read."""


@dataclass(frozen=True)
class Span:
    """A part of the day, in minutes after midnight; it may pass midnight."""

    start: int
    end: int

    def has(self, minute: int) -> bool:
        """Return whether a minute of the day lies in it.

        >>> night = Span(22 * 60, 6 * 60)
        >>> night.has(23 * 60), night.has(5 * 60), night.has(12 * 60)
        (True, True, False)
        """
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


@dataclass(frozen=True)
class Allowed:
    """The values a setting of the config may have: some of a list, or a range."""

    values: tuple[Any, ...] | None = None
    least: float | None = None
    most: float | None = None

    def has(self, value: Any) -> bool:
        """Return whether a value is allowed."""
        if self.values is not None:
            return any(value == one and isinstance(value, bool) == isinstance(one, bool)
                       for one in self.values)  # fmt: skip
        number = isinstance(value, int | float) and not isinstance(value, bool)
        low, high = (-float("inf") if self.least is None else self.least,
                     float("inf") if self.most is None else self.most)  # fmt: skip
        return number and low <= value <= high

    def __str__(self) -> str:
        if self.values is not None:
            return " or ".join(map(str, self.values))
        limits = (("at least", self.least), ("at most", self.most))
        return " and ".join(f"{word} {limit:g}" for word, limit in limits if limit is not None)


@dataclass(frozen=True)
class Policy:
    """What a site's owner allows; None is no limit."""

    digest: str = ""  # of the file, the first 12 digits of its SHA-256
    addresses: tuple[str, ...] | None = None
    sha256: tuple[str, ...] | None = None  # of apps
    tree: tuple[str, ...] | None = None
    config: Mapping[str, Allowed] = field(default_factory=dict)
    rounds: int | None = None
    rounds_in_all: int | None = None
    epochs: int | None = None
    hours: tuple[Span, ...] | None = None
    days: tuple[str, ...] | None = None
    cores: int | None = None
    memory: int | None = None  # bytes
    losses: bool = True
    scores: bool = True
    counts: bool = True
    calibration: bool = True  # sums of losses and counts of scores, at the end of a run
    count_rounding: int = 1
    digits: int | None = None  # of losses and scores
    noise: float | None = None  # least noise multiplier of differential privacy
    epsilon: float | None = None
    delta: float = DELTA  # at most; epsilon means nothing at a delta that the server chooses
    before: tuple[str, ...] = ()  # what a person must allow: "app", "run"

    @property
    def calibrates(self) -> bool:
        """Whether the site helps to calibrate a model: with exact sums and counts, or not at all.

        A guarantee cannot rest on rounded counts.
        """
        exact = self.losses and self.scores and self.counts and self.count_rounding == 1
        return self.calibration and exact


def read_policy(path: Path) -> Policy:
    """Read ``site.toml``; anything in it that is not understood is an error."""
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise PolicyError(f"{path}: there is no such file; write it, or drop --policy") from None
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read ({error.strerror})") from None
    except FedgrainError as error:
        raise PolicyError(str(error)) from None
    content = parse_toml(text, path, PolicyError)
    values: dict[str, Any] = {"digest": hashlib.sha256(text.encode()).hexdigest()[:12]}
    try:
        refuse_unknown(content, SECTIONS, "a section of a policy", PolicyError)
        for section, part in content.items():
            if not isinstance(part, dict):
                raise PolicyError(f"{section} must be a section, written [{section}]")
            if section == "config":
                values["config"] = {name: _allowed(name, value) for name, value in part.items()}
                continue
            refuse_unknown(part, _FIELDS[section], f"a setting of [{section}]", PolicyError)
            values |= {name: _READ[name](f"{section}.{name}", value)
                       for name, value in part.items()}  # fmt: skip
        if not values.get("counts", True) and values.get("scores", True):
            raise PolicyError(
                "leaves.counts is false, but scores come with counts; also write scores = false"
            )
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None
    return Policy(**values)


def _allowed(name: str, value: Any) -> Allowed:
    refuse_unknown([name], [one.name for one in fields(Config)], "a setting of a run", PolicyError)
    if isinstance(value, dict):
        refuse_unknown(value, ("least", "most"), f"part of config.{name}", PolicyError)
        limits = {key: _number(f"config.{name}.{key}", found) for key, found in value.items()}
        if not limits or limits.get("least", -float("inf")) > limits.get("most", float("inf")):
            raise PolicyError(
                f"config.{name} must be {{least = NUMBER, most = NUMBER}}, one or both"
            )
        return Allowed(None, limits.get("least"), limits.get("most"))
    return Allowed(tuple(value) if isinstance(value, list) else (value,))


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise PolicyError(f"{name} is {value!r}, but must be a number")
    return float(value)


def _positive(name: str, value: Any) -> float:
    if (found := _number(name, value)) <= 0:
        raise PolicyError(f"{name} is {value!r}, but must be more than 0")
    return found


def _probability(name: str, value: Any) -> float:
    if not 0 < (found := _number(name, value)) < 1:
        raise PolicyError(f"{name} is {value!r}, but must lie between 0 and 1")
    return found


def _whole(least: int) -> Callable[[str, Any], int]:
    def read(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise PolicyError(f"{name} is {value!r}, but must be a whole number from {least}")
        return value

    return read


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise PolicyError(f"{name} is {value!r}, but must be true or false")
    return value


def _texts(known: tuple[str, ...] = (), pattern: str = "") -> Callable[[str, Any], tuple[str, ...]]:
    def read(name: str, value: Any) -> tuple[str, ...]:
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            if not isinstance(text, str) or (known and text not in known):
                wanted = f"one of {', '.join(known)}" if known else "text"
                raise PolicyError(f"{name} has {text!r}, but must be {wanted}")
            if pattern and not re.fullmatch(pattern, text):
                raise PolicyError(f"{name} has {text!r}, which does not look right; it must be "
                                  "64 digits, as fedgrain flower check prints them")  # fmt: skip
        return tuple(texts)

    return read


def _hours(name: str, value: Any) -> tuple[Span, ...]:
    spans = []
    for text in value if isinstance(value, list) else [value]:
        found = (
            re.fullmatch(r"(\d\d):(\d\d)-(\d\d):(\d\d)", text) if isinstance(text, str) else None
        )
        numbers = [int(digits) for digits in found.groups()] if found else [99]
        if max(numbers[::2]) > 24 or max(numbers[1::2], default=0) > 59:
            raise PolicyError(f'{name} has {text!r}, but must be like "20:00-06:00"')
        start, end = numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]
        spans.append(Span(start, end))
    return tuple(spans)


def _memory(name: str, value: Any) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(MB|GB)", value) if isinstance(value, str) else None
    if found is None or not float(found[1]):
        raise PolicyError(f'{name} is {value!r}, but must be like "4 GB"')
    return int(float(found[1]) * _UNITS[found[2]])


_DIGEST = "[0-9a-f]{64}"
_READ: Mapping[str, Callable[[str, Any], Any]] = {
    "addresses": _texts(), "sha256": _texts(pattern=_DIGEST), "tree": _texts(pattern=_DIGEST),
    "rounds": _whole(0), "rounds_in_all": _whole(0), "epochs": _whole(1), "hours": _hours,
    "days": _texts(DAYS), "cores": _whole(1), "memory": _memory, "losses": _flag, "scores": _flag,
    "counts": _flag, "calibration": _flag, "count_rounding": _whole(1), "digits": _whole(0),
    "noise": _positive, "epsilon": _positive, "delta": _probability, "before": _texts(ASK),
}  # fmt: skip

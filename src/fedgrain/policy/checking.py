"""Check what a message asks for against the policy of the site, rule by rule.

The first rule that does not allow it is the reason of the refusal. No data was touched before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fedgrain.files import append_line, read_text
from fedgrain.parsing import parse_json
from fedgrain.policy.site_policy import DAYS, Policy, PolicyError

_ASKED = "{what} {name} must be allowed by a person at the site: fedgrain flower allow"


@dataclass(frozen=True)
class Asked:
    """What a message asks of a site."""

    kind: str  # query, train or evaluate
    run: str
    config: Mapping[str, Any]  # of the app, complete
    app: str  # its digest
    tree: str  # the digest of its taxonomy
    noise: float  # noise multiplier; 0 without differential privacy
    epsilon: float | None  # what the site would have spent with one more update
    trained: int  # messages to train that this run has had so far
    trained_in_all: int
    now: datetime  # local time of the site
    delta: float | None = None  # at which epsilon is computed
    calibrates: bool = False  # it asks for sums or counts that calibrate the model


@dataclass(frozen=True)
class Verdict:
    """What one rule says: its name, whether it allows, and why."""

    rule: str
    allowed: bool
    text: str


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file; 64 zeros if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "0" * 64


def app_digest(package: Path) -> str:
    """Return the digest of all that a site uses of an app: its config and its taxonomy."""
    parts = [digest_of(package / name) for name in ("config.toml", "taxonomy.json")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def verdicts(policy: Policy, asked: Asked, allowances: Allowances | None) -> Iterator[Verdict]:
    """Yield what every rule of the policy says."""
    yield from _app(policy, asked)
    for name, allowed in policy.config.items():
        value = asked.config.get(name)
        yield Verdict(f"config.{name}", allowed.has(value), f"{value}, allowed is {allowed}")
    yield from _work(policy, asked)
    yield from _leaves(policy, asked)
    for what in policy.before:
        name = asked.app if what == "app" else asked.run
        known = allowances is not None and allowances.has(what, name)
        text = "allowed by a person" if known else _ASKED.format(what=what, name=name)
        yield Verdict(f"ask.{what}", known, text)


def _app(policy: Policy, asked: Asked) -> Iterator[Verdict]:
    if policy.sha256 is not None:
        yield Verdict("app.sha256", asked.app in policy.sha256, f"the app is {asked.app}")
    if policy.tree is not None:
        yield Verdict("app.tree", asked.tree in policy.tree, f"the taxonomy is {asked.tree}")


def _work(policy: Policy, asked: Asked) -> Iterator[Verdict]:
    if policy.epochs is not None:
        epochs = int(asked.config.get("epochs", 0))
        text = f"{epochs} epochs, allowed are {policy.epochs}"
        yield Verdict("work.epochs", epochs <= policy.epochs, text)
    if policy.hours is not None:
        minute = asked.now.hour * 60 + asked.now.minute
        good = any(span.has(minute) for span in policy.hours)
        yield Verdict("work.hours", good, f"it is {asked.now:%H:%M} at the site")
    if policy.days is not None:
        day = DAYS[asked.now.weekday()]
        yield Verdict("work.days", day in policy.days, f"it is {day} at the site")
    if asked.kind != "train":
        return
    for rule, most, had in (
        ("work.rounds", policy.rounds, asked.trained),
        ("work.rounds_in_all", policy.rounds_in_all, asked.trained_in_all),
    ):
        if most is not None:
            yield Verdict(rule, had < most, f"it has trained {had} times, allowed are {most}")


def _leaves(policy: Policy, asked: Asked) -> Iterator[Verdict]:
    if asked.kind == "evaluate":
        yield Verdict("leaves.scores", policy.scores, "scores are asked for")
    if asked.calibrates:
        text = "exact sums of losses and counts of scores are asked for"
        yield Verdict("leaves.calibration", policy.calibrates, text)
    if policy.noise is not None:
        text = f"the noise multiplier is {asked.noise:g}, the least is {policy.noise:g}"
        yield Verdict("leaves.noise", asked.noise >= policy.noise, text)
    if policy.epsilon is not None and asked.kind == "train":
        if asked.delta is not None:
            text = f"delta is {asked.delta:g}, the most is {policy.delta:g}"
            yield Verdict("leaves.delta", asked.delta <= policy.delta, text)
        good = asked.epsilon is not None and asked.epsilon <= policy.epsilon
        spent = "without bound" if asked.epsilon is None else f"{asked.epsilon:.3g}"
        text = f"epsilon would be {spent}, the most is {policy.epsilon:g}"
        yield Verdict("leaves.epsilon", good, text)


@dataclass(frozen=True)
class Allowances:
    """What a person at the site has allowed, one line each: ``NAME.allowed`` next to the policy."""

    path: Path

    @classmethod
    def beside(cls, policy: Path) -> Allowances:
        """Return those of a policy."""
        return cls(policy.with_name(policy.name + ".allowed"))

    def has(self, what: str, name: str) -> bool:
        """Return whether an app or a run was allowed."""
        if not self.path.exists():
            return False
        lines = [parse_json(line, self.path, PolicyError)
                 for line in read_text(self.path).splitlines() if line]  # fmt: skip
        return any(line == {"what": what, "name": name} for line in lines)

    def add(self, what: str, name: str) -> None:
        """Allow an app or a run."""
        if not self.has(what, name):
            append_line(self.path, json.dumps({"what": what, "name": name}))

"""The guard of a site: its owner's policy, and the record of all that comes and leaves.

Every message is checked and recorded before any data is touched; an answer is recorded before it is
sent. If the record cannot be written, or the policy cannot be read, nothing leaves.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from flwr.app import MetricRecord, RecordDict

from fedgrain.config.config_texts import read_config
from fedgrain.deployment.ledger import SiteLedger
from fedgrain.deployment.privacy import Privacy
from fedgrain.errors import DeploymentError
from fedgrain.handover.passing import Request
from fedgrain.messages.calibration_counts import CALIBRATION, calibrates
from fedgrain.messages.fingerprints import (
    DECLINED,
    fingerprint,
    head_of,
    update_norm,
    with_head,
)
from fedgrain.policy.checking import Allowances, Asked, app_digest, digest_of, verdicts
from fedgrain.policy.site_policy import Policy, PolicyError, read_policy
from fedgrain.records.chain import Chain, entries_of


class DeclinedError(DeploymentError):
    """The site's policy does not allow what a message asks for."""

    def __init__(self, rule: str, why: str) -> None:
        super().__init__(f"{rule}: {why}")
        self.rule, self.why = rule, why


@dataclass
class Guard:
    """Checks and records the messages of one site."""

    policy_path: Path | None = None
    chain: Chain | None = None
    later: Path | None = None  # where a policy counts from when it is written
    _trained: dict[str, set[str]] | None = field(default=None, repr=False)  # run: its messages

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> Guard:
        """Return the guard that a site's own settings describe."""
        names = ("policy", "record", "policy-later")
        policy, record, later = (Path(str(node[key])) if node.get(key) else None for key in names)
        chain = Chain(record, str(node.get("site", "a site"))) if record else None
        return cls(policy, chain, later)

    def policy(self) -> Policy:
        """Return the policy as it is now; one that cannot be read allows nothing.

        One that is written after the site has joined counts from then on.
        """
        if self.policy_path is None and self.later is not None and self.later.exists():
            self.policy_path = self.later
        if self.policy_path is None:
            return Policy()
        try:
            return read_policy(self.policy_path)
        except PolicyError as error:
            print(f"fedgrain: error: {error}", file=sys.stderr)
            raise DeclinedError("policy", "the site's policy cannot be read") from None

    def came(self, request: Request, content: RecordDict) -> Policy:
        """Record a message and check it; raise :class:`DeclinedError` if it is not allowed."""
        entry = {"what": "came", **about(request, content), **fingerprint(content)}
        try:
            policy = self.policy()
            rules = self._check(policy, request, content)
        except DeclinedError as error:
            self._record({**entry, "rule": f"declined by {error}"}, content)
            raise
        named = ", ".join(rules) or "no rule applies"
        whose = f"site.toml {policy.digest}: {named}" if policy.digest else "no policy"
        self._record({**entry, "rule": f"allowed by {whose}"}, content)
        if request.kind == "train" and self._trained is not None:
            self._trained.setdefault(request.run, set()).add(request.message)
        return policy

    def _check(self, policy: Policy, request: Request, content: RecordDict) -> list[str]:
        """Return the rules that allow a message."""
        if self.policy_path is None:
            return []
        package, privacy = Path(request.package), Privacy.of(request.settings)
        mine, everyone = self._had(request, policy)
        allowances = Allowances.beside(self.policy_path)
        asked = Asked(
            kind=request.kind,
            run=request.run,
            config=read_config(package / "config.toml").complete().settings(),
            app=app_digest(package),
            tree=digest_of(package / "taxonomy.json"),
            noise=privacy.noise_multiplier if privacy else 0.0,
            epsilon=_epsilon(request, privacy, policy),
            delta=privacy.delta if privacy else None,
            trained=mine,
            trained_in_all=everyone,
            now=datetime.now().astimezone(),
            calibrates=calibrates(content),
        )
        found = list(verdicts(policy, asked, allowances))
        for verdict in found:
            if not verdict.allowed:
                raise DeclinedError(verdict.rule, verdict.text)
        return [verdict.rule for verdict in found]

    def _had(self, request: Request, policy: Policy) -> tuple[int, int]:
        """Count the messages to train before this one, of its run and of all, from the record."""
        if policy.rounds is None and policy.rounds_in_all is None:
            return 0, 0
        if self.chain is None:
            raise DeclinedError("work.rounds", "the site keeps no record to count rounds with")
        if self._trained is None:
            self._trained = {}
            entries = entries_of(self.chain.path) if self.chain.path.exists() else []
            for entry in entries:
                allowed = str(entry.get("rule", "")).startswith("allowed")
                if entry.get("what") == "came" and entry.get("kind") == "train" and allowed:
                    self._trained.setdefault(entry["run"], set()).add(entry["message"])
        before = {run: messages - {request.message} for run, messages in self._trained.items()}
        return len(before.get(request.run, ())), sum(map(len, before.values()))

    def left(self, request: Request, sent: RecordDict, answer: RecordDict) -> RecordDict:
        """Record an answer, and put the head of the record into it."""
        if self.chain is None:
            return answer
        entry = {"what": "left", **about(request, sent), **fingerprint(answer)}
        if "failed" in answer or DECLINED in answer:
            entry["note"] = "that it failed" if "failed" in answer else "that it declined"
        elif CALIBRATION in answer:
            entry["note"] = "sums and counts that calibrate"
        elif (norm := update_norm(sent, answer)) is not None:
            entry["norm"] = norm
        if "releases" in answer:
            privacy, ledger = Privacy.of(request.settings), str(request.node.get("ledger", ""))
            if privacy is not None:
                entry["epsilon"] = SiteLedger(Path(ledger)).epsilon(privacy)
        self._record(entry)
        return with_head(answer, self.chain.mark)

    def _record(self, entry: Mapping[str, Any], content: RecordDict | None = None) -> None:
        if self.chain is not None:
            peer = head_of(content) if content is not None else None
            self.chain.add({**entry, **({"peer": peer} if peer else {})})


def about(request: Request, content: RecordDict) -> dict[str, Any]:
    """Return what an entry says of a message: its kind, run, round and number."""
    told: Any = content.config_records.get("about") or {}
    found: dict[str, Any] = {"kind": request.kind, "run": request.run, "message": request.message}
    if isinstance(number := told.get("round"), int):
        found["round"] = number
    return found


def _epsilon(request: Request, privacy: Privacy | None, policy: Policy) -> float | None:
    """Return what would be spent with one more update; None without differential privacy."""
    if privacy is None or policy.epsilon is None or "ledger" not in request.node:
        return None
    return SiteLedger(Path(str(request.node["ledger"]))).epsilon(privacy, more=1)


def coarsened(policy: Policy, answer: RecordDict) -> RecordDict:
    """Take out or round what the policy does not let leave exactly."""
    if not policy.counts:
        with suppress(KeyError):
            del answer["time"]  # it says how many images there are
    for key, record in list(answer.metric_records.items()):
        if key.endswith(" told") and "update" in record:
            values: Any = record["update"]
            samples, loss, steps = values
            if not policy.losses:
                answer[key] = MetricRecord({"samples": int(samples)})
            elif policy.digits is not None:
                answer[key] = MetricRecord({"update": [samples, round(loss, policy.digits), steps]})
        elif key == "scores" and policy.digits is not None:
            rows: Any = record.items()
            rounded: dict[str, Any] = {
                name: [round(mean, policy.digits), count] for name, (mean, count) in rows
            }
            answer[key] = MetricRecord(rounded)
        elif key == CALIBRATION and policy.digits is not None and "sums" in record:
            sums: Any = record["sums"]
            answer[key] = MetricRecord({"sums": [round(value, policy.digits) for value in sums]})
    return answer


def limit_work(policy: Policy) -> None:
    """Keep this process to the cores and the memory that the policy allows now.

    A limit that was raised or taken out ends: it is set from what the process began with.
    """
    cores, (memory, most) = _began_with()
    if cores:
        os.sched_setaffinity(0, set(cores[: policy.cores]))
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (policy.memory or memory, most))


@cache
def _began_with() -> tuple[list[int], tuple[int, int]]:
    """Return the cores that this process had at first, and its limit of memory."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    return cores, resource.getrlimit(resource.RLIMIT_DATA)

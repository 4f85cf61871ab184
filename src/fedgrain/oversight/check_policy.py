"""``fedgrain flower check --policy``: what a site's policy says of an app, before it joins."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from fedgrain.deployment.app import App, app_privacy
from fedgrain.handover.passing import PACKAGE
from fedgrain.oversight.findings import Finding
from fedgrain.policy.checking import Allowances, Asked, app_digest, digest_of, verdicts
from fedgrain.policy.site_policy import Policy, PolicyError, read_policy

_LATER = ("work.hours", "work.days", "ask.")  # rules that depend on when the message comes
_KINDS = ("query", "train", "evaluate")


def check_policy(
    path: Path, app_folder: Path, server: str | None = None
) -> tuple[Policy | None, list[Finding]]:
    """Return a policy and what it says of an app; None, and why, if it cannot be read."""
    try:
        policy = read_policy(path)
    except PolicyError as error:
        return None, [Finding("policy", False, str(error))]
    return policy, list(_findings(policy, path, app_folder, server))


def _findings(
    policy: Policy, path: Path, app_folder: Path, server: str | None
) -> Iterator[Finding]:
    """Yield a finding for every rule, on a message of each kind as the app would send it."""
    package = app_folder / PACKAGE
    if server is not None and policy.addresses is not None:
        text = f"{server}, allowed is {' or '.join(policy.addresses)}"
        yield Finding("policy server.addresses", server in policy.addresses, text)
    seen = set()
    for kind in _KINDS:
        for verdict in verdicts(policy, _asked(kind, app_folder), Allowances.beside(path)):
            if verdict.rule not in seen:
                seen.add(verdict.rule)
                later = verdict.rule.startswith(_LATER) and not verdict.allowed
                text = f"not yet: {verdict.text}" if later else verdict.text
                yield Finding(f"policy {verdict.rule}", verdict.allowed or later, text)
    yield Finding("policy app", True, f"this app is sha256 {app_digest(package)}")
    yield Finding("policy tree", True, f"its taxonomy is {digest_of(package / 'taxonomy.json')}")
    yield Finding("policy", True, f"{path.name} {policy.digest}; {'; '.join(limits(policy))}")


def _asked(kind: str, app_folder: Path) -> Asked:
    package, privacy = app_folder / PACKAGE, app_privacy(app_folder)
    return Asked(
        kind=kind,
        run="NUMBER",
        config=App.read(package).config.settings(),
        app=app_digest(package),
        tree=digest_of(package / "taxonomy.json"),
        noise=privacy.noise_multiplier if privacy else 0.0,
        epsilon=privacy.epsilon(1) if privacy else None,
        delta=privacy.delta if privacy else None,
        trained=0,
        trained_in_all=0,
        now=datetime.now().astimezone(),
    )


def limits(policy: Policy) -> list[str]:
    """Return in words what leaves under a policy, and how coarsely."""
    leaves = [name for name in ("losses", "scores", "counts") if getattr(policy, name)]
    found = [f"may leave: updates{''.join(f', {name}' for name in leaves)}"]
    if policy.count_rounding > 1 and policy.counts:
        found.append(f"counts in multiples of {policy.count_rounding}")
    found.append(
        "sums and counts that calibrate the model may leave"
        if policy.calibrates
        else "nothing that calibrates the model leaves"
    )
    if policy.digits is not None:
        found.append(f"losses and scores with {policy.digits} digits")
    if policy.cores is not None:
        found.append(f"at most {policy.cores} cores")
    if policy.memory is not None:
        found.append(f"at most {policy.memory / 1e9:g} GB of memory")
    return found

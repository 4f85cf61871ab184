"""``site.toml``: every rule allows and refuses, and what is wrong in the file is one sentence."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fedgrain import Config
from fedgrain.policy.checking import Allowances, Asked, verdicts
from fedgrain.policy.site_policy import Policy, PolicyError, read_policy

A, B = "a" * 64, "b" * 64
ASKED = Asked(
    kind="train", run="7", config=Config(epochs=2, lr=0.1).complete().settings(), app=A, tree=B,
    noise=0.0, epsilon=None, trained=3, trained_in_all=9, now=datetime(2026, 11, 17, 21, 30),
)  # fmt: skip


def policy(place: Path, text: str) -> Policy:
    path = place / "site.toml"
    path.write_text(text)
    return read_policy(path)


def refused(found: Policy, allowances: Allowances | None = None, **changes: Any) -> list[str]:
    asked = replace(ASKED, **changes)
    return [one.rule for one in verdicts(found, asked, allowances) if not one.allowed]


@pytest.mark.parametrize(
    ("text", "allowed", "not_allowed"),
    [
        (f'[app]\nsha256 = ["{A}", "{B}"]', {}, {"app": "c" * 64}),
        (f'[app]\ntree = "{B}"', {}, {"tree": A}),
        ("[config]\nlr = {least = 0.01, most = 0.1}", {}, {"config": {"lr": 0.2}}),
        ("[config]\nlr = {most = 0.1}", {"config": {"lr": -1}}, {"config": {"lr": None}}),
        ('[config]\nalgorithm = ["fedavg", "fedbdft"]', {}, {"config": {"algorithm": "scaffold"}}),
        ("[config]\nzero_shot = false", {}, {"config": {"zero_shot": 0}}),
        ("[work]\nepochs = 2", {}, {"config": {"epochs": 3}}),
        ("[work]\nrounds = 4", {}, {"trained": 4}),
        ("[work]\nrounds = 4", {"kind": "query", "trained": 4}, {"trained": 5}),
        ("[work]\nrounds_in_all = 10", {}, {"trained_in_all": 10}),
        ('[work]\nhours = ["20:00-06:00"]', {}, {"now": datetime(2026, 11, 17, 6, 0)}),
        ('[work]\nhours = ["08:00-12:00", "21:30-24:00"]', {}, {"now": datetime(2026, 1, 1, 13)}),
        ('[work]\ndays = ["mon", "tue"]', {}, {"now": datetime(2026, 11, 18, 21, 30)}),
        ("[leaves]\nscores = false", {}, {"kind": "evaluate"}),
        ("[leaves]\ncalibration = false", {}, {"kind": "evaluate", "calibrates": True}),
        ("[leaves]\nlosses = false", {"kind": "evaluate"}, {"calibrates": True}),
        ("[leaves]\ncount_rounding = 5", {}, {"kind": "evaluate", "calibrates": True}),
        ("[leaves]\nnoise = 1.5", {"noise": 1.5}, {"noise": 1.4}),
        ("[leaves]\nepsilon = 8", {"epsilon": 8.0}, {"epsilon": 8.1}),
        ("[leaves]\nepsilon = 8", {"kind": "query"}, {"epsilon": None}),
    ],
)
def test_each_rule_allows_and_refuses(
    tmp_path: Path, text: str, allowed: dict[str, Any], not_allowed: dict[str, Any]
) -> None:
    found = policy(tmp_path, text)
    assert refused(found, **allowed) == []
    assert len(refused(found, **not_allowed)) == 1


def test_a_person_is_asked_once(tmp_path: Path) -> None:
    found = policy(tmp_path, '[ask]\nbefore = ["run", "app"]')
    allowances = Allowances.beside(tmp_path / "site.toml")
    assert refused(found, allowances) == ["ask.run", "ask.app"]
    allowances.add("run", "7")
    assert refused(found, allowances) == ["ask.app"]
    allowances.add("app", A)
    assert refused(found, allowances) == []
    assert refused(found, allowances, run="8") == ["ask.run"]


def test_an_empty_policy_limits_nothing(tmp_path: Path) -> None:
    assert refused(policy(tmp_path, "")) == []
    assert refused(Policy()) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[wrok]\nrounds = 1", "'wrok' is not a section of a policy; did you mean work"),
        ("work = 3", r"work must be a section, written \[work\]"),
        ("[work]\nround = 1", r"'round' is not a setting of \[work\]; did you mean rounds"),
        ("[work]\nrounds = -1", "work.rounds is -1, but must be a whole number from 0"),
        ("[work]\nrounds = true", "work.rounds is True"),
        ('[work]\nhours = ["20-6"]', "work.hours has '20-6', but must be like"),
        ('[work]\nhours = ["25:00-26:00"]', "must be like"),
        ('[work]\ndays = ["monday"]', "work.days has 'monday', but must be one of mon"),
        ('[work]\nmemory = "lots"', 'must be like "4 GB"'),
        ("[config]\nrate = 1", "'rate' is not a setting of a run"),
        ("[config]\nlr = {above = 1}", "'above' is not part of config.lr"),
        ("[config]\nlr = {least = 2, most = 1}", "config.lr must be"),
        ('[app]\nsha256 = ["abc"]', "64 digits"),
        ("[leaves]\nnoise = 0", "leaves.noise is 0, but must be more than 0"),
        ("[leaves]\nlosses = 1", "leaves.losses is 1, but must be true or false"),
        ("[leaves]\ncounts = false", "also write scores = false"),
        ('[ask]\nbefore = ["round"]', "must be one of app, run"),
        ("[work", "not TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(PolicyError, match=sentence) as error:
        policy(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "site.toml"))
    assert "\n" not in str(error.value)

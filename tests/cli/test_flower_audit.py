"""``fedgrain flower audit`` and ``allow``, and the owner's files of ``join``."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from fedgrain.errors import DeploymentError
from fedgrain.membership.join import OwnersFiles
from fedgrain.policy.checking import Allowances
from fedgrain.records.chain import Chain
from fedgrain.sites.guard import DeclinedError, Guard


def test_the_page_the_exports_and_an_altered_record(
    tmp_path: Path, fedgrain: Callable[..., Any]
) -> None:
    path, page, table = (tmp_path / name for name in ("record.jsonl", "left.html", "left.csv"))
    chain = Chain(path, "<museum>")
    chain.add({"what": "came", "kind": "train", "run": "7", "message": "m", "bytes": 10,
               "rule": "declined by work.hours: it is noon"})  # fmt: skip
    chain.add({"what": "left", "kind": "train", "run": "7", "message": "n", "bytes": 2_000_000,
               "norm": 0.25, "epsilon": 1.5})  # fmt: skip
    done = fedgrain("flower", "audit", path, "--html", page, "--csv", table)
    assert done.returncode == 0, done.stderr
    assert "What left <museum>, ever" in done.stdout
    assert "updated weights  1         2.0 MB" in done.stdout and "0.25" in done.stdout
    assert "declined: work.hours 1×" in done.stdout and "epsilon 1.5" in done.stdout
    assert "What left &lt;museum&gt;, ever" in page.read_text()
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["bytes"] for row in rows] == ["", "10", "2000000"]
    found = json.loads(fedgrain("flower", "audit", path, "--json").stdout)
    assert found["head"] == chain.head.text() and len(found["record"]) == 3
    assert found["left"][0]["bytes"] == 2_000_000
    path.write_text(path.read_text().replace("2000000", "2000"))
    done = fedgrain("flower", "audit", path)
    assert done.returncode == 2 and done.stdout == ""
    assert "line 3: the entry was altered" in done.stderr and done.stderr.count("\n") == 1


def test_a_person_allows_a_run(tmp_path: Path, fedgrain: Callable[..., Any]) -> None:
    policy = tmp_path / "site.toml"
    policy.write_text('[ask]\nbefore = ["run"]\n')
    assert fedgrain("flower", "allow", policy, "--run", "7").stdout == "allowed run 7\n"
    assert Allowances.beside(policy).has("run", "7")
    done = fedgrain("flower", "allow", tmp_path / "none.toml", "--run", "7")
    assert done.returncode == 2 and "there is no such file" in done.stderr


def test_a_path_that_looks_like_a_setting_does_not_switch_off_policy_and_record(
    tmp_path: Path,
) -> None:
    (tmp_path / "site.toml").write_text("[work]\nrounds = 1\n")
    own = 'site="museum" images="/data/record=2024/policy=open/images.csv"'
    files = OwnersFiles.beside(tmp_path / "museum", None, None)
    expected = f' policy="{tmp_path}/site.toml" record="{tmp_path}/record.jsonl"'
    assert files.checked("10.0.0.5:8000", own) == own + expected
    with pytest.raises(DeploymentError, match=r"--node-config .* cannot be read"):
        files.checked("10.0.0.5:8000", 'site="museum')


def test_a_policy_that_is_written_later_counts_from_then_on(tmp_path: Path) -> None:
    files = OwnersFiles.beside(tmp_path / "museum", None, None)
    settings = files.checked("10.0.0.5:8000", 'site="museum"')
    assert f'policy-later="{tmp_path}/site.toml"' in settings
    guard = Guard.of({"site": "museum", "policy-later": str(tmp_path / "site.toml")})
    assert guard.policy().rounds is None and guard.policy_path is None
    (tmp_path / "site.toml").write_text("[work]\nrounds = 3\n")
    assert guard.policy().rounds == 3
    (tmp_path / "site.toml").unlink()  # a file that is gone does not open the site again
    with pytest.raises(DeclinedError, match="cannot be read"):
        guard.policy()


def test_a_record_that_cannot_be_written_is_told_before_the_site_joins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    files = OwnersFiles.beside(tmp_path / "museum", None, tmp_path / "far" / "record.jsonl")
    with pytest.raises(DeploymentError, match="give another place with --record"):
        files.checked("10.0.0.5:8000", "")


def test_join_takes_the_files_next_to_the_key(tmp_path: Path) -> None:
    key, own = tmp_path / "museum", 'site="museum"'
    assert OwnersFiles.beside(key, None, None).policy is None
    (tmp_path / "site.toml").write_text('[server]\naddresses = ["10.0.0.5:8000"]\n')
    files = OwnersFiles.beside(key, None, None)
    record, policy = tmp_path / "record.jsonl", tmp_path / "site.toml"
    expected = f'site="museum" policy="{policy}" record="{record}"'
    assert files.checked("10.0.0.5:8000", own) == expected
    with pytest.raises(DeploymentError, match=r"allows 10.0.0.5:8000, not 10.0.0.6:8000"):
        files.checked("10.0.0.6:8000", own)
    Chain(record, "museum").add({"what": "left"})
    record.write_bytes(record.read_bytes().replace(b"left", b"came"))
    with pytest.raises(DeploymentError, match="the entry was altered"):
        files.checked("10.0.0.5:8000", own)

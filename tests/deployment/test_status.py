"""Where a federation's run stands: on the terminal, for Prometheus, and as a notice."""

import json
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedgrain import Config
from fedgrain.cli import main
from fedgrain.deployment.certificates import read_public_key, write_key_pair
from fedgrain.deployment.key_record import Member, Record
from fedgrain.membership.exposition import serve
from fedgrain.membership.status import read_status

SITES = ("museum", "zoo", "park")


def round_line(number: int, trained: tuple[str, ...], lost: dict[str, str]) -> dict:
    clients = [{"client": n, "samples": 5, "loss": 0.5, "steps": 1} for n in trained]
    faults = [{"client": name, "fault": text, "kind": "absent"} for name, text in lost.items()]
    about = {"stage": "fedavg", "round": number, "validation_hf": 0.5, "seconds": 10.0}
    return {**about, "clients": clients, "faults": faults}


@pytest.fixture
def federation(tmp_path) -> Path:
    """A federation whose run has three rounds; the zoo was there in the first only."""
    folder = tmp_path / "federation"
    (folder / "run").mkdir(parents=True)
    members = {name: Member() for name in SITES}
    for name in ("museum", "zoo"):
        write_key_pair(tmp_path / name)
        members[name] = Member(read_public_key(tmp_path / f"{name}.pub")[0])
    record = Record("127.0.0.1", 8000, 8001, 8002, members)
    record.write(folder / "federation.json")
    (folder / "run" / "config.toml").write_text(Config(rounds=10).complete().toml())
    lines = [
        round_line(1, ("museum", "zoo"), {}),
        round_line(2, ("museum",), {"zoo": "did not\nanswer"}),
        round_line(3, ("museum",), {"zoo": "did not\nanswer"}),
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "run" / "metrics.jsonl").write_text(text)
    traffic = {"stage": "fedavg", "round": 1, "messages": 6, "bytes": 2_500_000}
    torn = json.dumps(traffic) + "\n" + json.dumps(traffic)[:20]
    (folder / "run" / "traffic.jsonl").write_text(torn)
    return folder


def test_sites_rounds_faults_traffic_and_time_left(federation, capsys):
    assert main(["flower", "status", str(federation)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("running, fedavg 3, ") and "at most 70 s left" in told  # 7 of 10 s
    assert "6 messages, 2.5 MB, 2 updates lost" in told
    lines = {line.split()[0]: line for line in told.splitlines() if line.startswith("  ")}
    assert lines["museum"].split()[1:3] == ["3", "0"]
    assert lines["zoo"].endswith("MISSING for 2 rounds: did not\\nanswer")
    assert "never" in lines["park"] and "MISSING" in lines["park"]
    found = read_status(federation)
    museum, zoo = (next(s for s in found.sites if s.name == name) for name in ("museum", "zoo"))
    assert museum.last_seen == found.last_round_ended and zoo.last_seen < museum.last_seen


def test_a_notice_when_a_site_is_missing(federation, tmp_path, capsys, monkeypatch):
    heard = tmp_path / "heard"
    script = tmp_path / "tell"
    script.write_text(f'#!/bin/sh\necho "$2" >> {heard}\n')
    script.chmod(0o700)
    lines = (federation / "run" / "metrics.jsonl").read_text()

    def later(_: float) -> None:
        """While the command waits, the sites come back; then it is stopped."""
        if "back" in heard.read_text():
            raise KeyboardInterrupt
        back = json.dumps(round_line(4, SITES, {})) + "\n"
        (federation / "run" / "metrics.jsonl").write_text(lines + back)

    monkeypatch.setattr("fedgrain.cli.flower_status.time", SimpleNamespace(sleep=later))
    words = ["flower", "status", str(federation), "--follow", "--notify", str(script)]
    assert main(words) == 130
    told = heard.read_text().splitlines()
    assert told[:2] == ["park has sent nothing for 3 rounds", "zoo has sent nothing for 2 rounds"]
    assert told[2:] == ["park is back", "zoo is back"]
    assert capsys.readouterr().out.splitlines()[-6].startswith("running, fedavg 4")


def test_metrics_for_prometheus(federation):
    with serve(federation, "127.0.0.1", 0) as port:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    found = {
        (sample.name, sample.labels.get("site")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["fedgrain_running", None] == 1
    assert found["fedgrain_traffic_bytes_total", None] == 2_500_000
    assert found["fedgrain_site_rounds_total", "museum"] == 3
    assert found["fedgrain_site_faults_total", "zoo"] == 2
    assert found["fedgrain_site_silent_rounds", "zoo"] == 2
    assert found["fedgrain_seconds_left", None] == 70


def test_one_sentence_for_what_is_wrong(federation, tmp_path, capsys):
    assert main(["flower", "status", str(tmp_path)]) == 2
    assert "give the folder that fedgrain flower init wrote" in capsys.readouterr().err
    assert main(["flower", "status", str(federation), "--notify", "x"]) == 2
    assert "--notify needs --follow" in capsys.readouterr().err

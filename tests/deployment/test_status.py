"""Where a federation's run stands: on the terminal, for Prometheus, and as a notice."""

import json
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedgrain import Config
from fedgrain.cli import main
from fedgrain.deployment.certificates import read_public_key, write_key_pair
from fedgrain.deployment.key_record import Member, Record
from fedgrain.oversight.exposition import figures, serve, site_figures
from fedgrain.oversight.status import read_status
from fedgrain.records.chain import Chain

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

    monkeypatch.setattr("fedgrain.flower_commands.status.time", SimpleNamespace(sleep=later))
    words = ["flower", "status", str(federation), "--follow", "--notify", str(script)]
    assert main(words) == 130
    told = heard.read_text().splitlines()
    assert told[:2] == ["park has sent nothing for 3 rounds", "zoo has sent nothing for 2 rounds"]
    assert told[2:] == ["park is back", "zoo is back"]
    assert capsys.readouterr().out.splitlines()[-6].startswith("running, fedavg 4")


def scraped(read) -> dict:
    """Fetch the page as Prometheus does; return every sample by name and labels."""
    with serve(read, "127.0.0.1", 0) as port:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_for_prometheus(federation):
    found = scraped(lambda: figures(read_status(federation)))
    assert found["fedgrain_running",] == 1
    assert found["fedgrain_traffic_bytes_total",] == 2_500_000
    assert found["fedgrain_site_rounds_total", "museum"] == 3
    assert found["fedgrain_site_faults_total", "zoo"] == 2
    assert found["fedgrain_site_silent_rounds", "zoo"] == 2
    assert found["fedgrain_seconds_left",] == 70


def test_metrics_of_a_site(tmp_path):
    path = tmp_path / "record.jsonl"
    assert scraped(lambda: site_figures(path)) == {("fedgrain_record_verifies",): 1}
    chain = Chain(path, "museum")
    chain.add({"what": "came", "kind": "train", "bytes": 70, "message": "1", "rule": "allowed by"})
    chain.add({"what": "left", "kind": "train", "bytes": 60, "norm": 0.5, "epsilon": 1.25})
    chain.add({"what": "came", "kind": "train", "bytes": 70, "rule": "declined by work.hours: no"})
    chain.add({"what": "left", "kind": "train", "bytes": 9, "note": "that it declined"})
    found = scraped(lambda: site_figures(path))
    assert time.time() - found.pop(("fedgrain_last_entry_timestamp_seconds",)) < 60
    assert found == {
        ("fedgrain_record_verifies",): 1,
        ("fedgrain_record_entries",): 5,
        ("fedgrain_epsilon",): 1.25,
        ("fedgrain_largest_update_norm",): 0.5,
        ("fedgrain_site_messages_total", "train", "came"): 2,
        ("fedgrain_site_messages_total", "train", "left"): 1,
        ("fedgrain_site_messages_total", "that it declined", "left"): 1,
        ("fedgrain_site_bytes_total", "train", "came"): 140,
        ("fedgrain_site_bytes_total", "train", "left"): 60,
        ("fedgrain_site_bytes_total", "that it declined", "left"): 9,
        ("fedgrain_declined_total", "work.hours"): 1,
        ("fedgrain_failed_total",): 0,
        ("fedgrain_repaired_total",): 0,
    }
    path.write_bytes(path.read_bytes().replace(b'"bytes": 60', b'"bytes": 61'))
    assert scraped(lambda: site_figures(path)) == {("fedgrain_record_verifies",): 0}


def test_one_sentence_for_what_is_wrong(federation, tmp_path, capsys):
    assert main(["flower", "status", str(tmp_path)]) == 2
    assert "give the folder that fedgrain flower init wrote" in capsys.readouterr().err
    assert main(["flower", "metrics", "--site", str(tmp_path)]) == 2
    assert "give the site's record.jsonl" in capsys.readouterr().err
    assert main(["flower", "status", str(federation), "--notify", "x"]) == 2
    assert "--notify needs --follow" in capsys.readouterr().err

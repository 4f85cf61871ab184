"""The record: what is altered, cut or reordered is found; kills leave one that verifies."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedgrain.records.audit import read_audit
from fedgrain.records.chain import Chain, Head, RecordError, entries_of, hash_of, head_path

KILLS = 50


def written(path: Path, count: int = 6) -> list[dict[str, Any]]:
    chain = Chain(path, "museum")
    for number in range(count):
        way = "came" if number % 2 == 0 else "left"
        chain.add({"what": way, "kind": "train", "message": f"m{number // 2}", "bytes": number,
                   "sha256": f"{number:064x}", "norm": number / 3})  # fmt: skip
    return entries_of(path)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_entries_are_numbered_chained_and_private(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    entries = written(path)
    assert [entry["number"] for entry in entries] == list(range(1, 8))
    assert entries[0]["what"] == "started" and entries[0]["whose"] == "museum"
    for before, entry in itertools.pairwise(entries):
        assert entry["before"] == before["hash"] == hash_of(before)
    assert path.stat().st_mode & 0o777 == 0o600
    again = Chain(path, "museum")
    again.add({"what": "left"})
    assert len(entries_of(path)) == 8
    assert head_path(path).read_text().strip() == again.head.text()


def forged(raw: list[bytes]) -> list[bytes]:
    """Change an entry and give it a right hash: its follower shows it."""
    entry = json.loads(raw[3])
    entry["bytes"] = 1
    entry["hash"] = hash_of(entry)
    return [*raw[:3], json.dumps(entry).encode() + b"\n", *raw[4:]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda raw: [*raw[:3], raw[3].replace(b'"bytes": 2', b'"bytes": 1'), *raw[4:]],
         "line 4: the entry was altered"),
        (forged, "line 5: the entry does not follow"),
        (lambda raw: [raw[1], raw[0], *raw[2:]], "line 1: the entry does not follow"),
        (lambda raw: [*raw[:2], *raw[3:]], "line 3: the entry does not follow"),
        (lambda raw: [*raw[:2], raw[1], *raw[2:]], "line 3: the entry does not follow"),
        (lambda raw: [*raw[:2], b"{}\n", *raw[2:]], "line 3: not an entry of a record"),
        (lambda raw: [*raw[:2], b"\xff\n", *raw[2:]], "line 3: not an entry of a record"),
        (lambda raw: raw[:-1], "cut at its end: 6 entries, but its own head is of entry 7"),
        (lambda raw: [], "cut at its end: 0 entries"),
        (lambda raw: [*raw[:-1], raw[-1][:20]], "the last line is torn"),
    ],
)  # fmt: skip
def test_a_record_that_was_changed_is_found(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], sentence: str
) -> None:
    path = tmp_path / "record.jsonl"
    written(path)
    path.write_bytes(b"".join(change(lines(path))))
    with pytest.raises(RecordError, match=sentence):
        read_audit(path)
    if "torn" not in sentence:
        with pytest.raises(RecordError):  # nor does anyone write on
            Chain(path, "museum").add({"what": "left"})


def test_flipped_bytes_are_found(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    written(path, 2)
    raw = path.read_bytes()
    for place in range(0, len(raw), 7):
        changed = bytearray(raw)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(RecordError):
            entries_of(path)


def test_a_record_cut_with_its_head_is_found_by_the_other_side_alone(tmp_path: Path) -> None:
    site, server = tmp_path / "site.jsonl", tmp_path / "server.jsonl"
    chain, other = Chain(site, "museum"), Chain(server, "the server")
    for number in range(3):
        name, digest = f"m{number}", {"sha256": f"{number:064x}", "bytes": 1, "kind": "train"}
        other.add({"what": "left", "message": name, **digest})
        chain.add({"what": "came", "message": name, "peer": other.mark, **digest})
        chain.add({"what": "left", "message": name, **digest})
        other.add({"what": "came", "message": name, "peer": chain.mark, **digest})
    found = read_audit(site, chain.head, server)
    assert (found.compared, found.only_here) == (3, [])
    assert read_audit(server, None, site).compared == 3
    kept = lines(site)
    site.write_bytes(b"".join(kept[:-2]))
    entry = json.loads(kept[-3])
    head_path(site).write_text(Head(entry["number"], entry["hash"]).text() + "\n")
    assert read_audit(site).entries == 5  # by itself it looks whole
    with pytest.raises(RecordError, match="cut at its end: 5 entries, but the head noted in"):
        read_audit(site, None, server)
    with pytest.raises(RecordError, match="cut at its end: 5 entries, but the head you gave"):
        read_audit(site, chain.head)
    site.unlink()
    head_path(site).unlink()
    lying = Chain(site, "museum")
    for number in range(3):
        lying.add({"what": "left", "message": f"m{number}", "sha256": "f" * 64, "bytes": 9})
    with pytest.raises(RecordError):
        read_audit(site, None, server)


def test_a_torn_last_line_is_repaired_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    written(path)
    with path.open("ab") as file:
        file.write(b'{"number": 8, "time": "20')
    Chain(path, "museum").add({"what": "left", "kind": "train"})
    entries = entries_of(path)
    assert [entry["what"] for entry in entries[-2:]] == ["repaired", "left"]
    assert entries[-2]["bytes"] == 25
    assert read_audit(path).repaired == 1


def test_a_full_disk_leaves_the_record_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.jsonl"
    before = written(path)
    chain = Chain(path, "museum")
    chain.verify()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr("fedgrain.records.chain.os.fsync", full)
        chain.add({"what": "left"})
    assert entries_of(path) == before
    chain.add({"what": "left"})
    assert len(entries_of(path)) == len(before) + 1


def test_fifty_kills_leave_a_record_that_verifies_and_lose_nothing_noted(tmp_path: Path) -> None:
    path, moments = tmp_path / "record.jsonl", random.Random(5)
    noted = 0
    for _ in range(KILLS):
        read, write = os.pipe()
        writer = os.fork()
        if not writer:
            try:
                chain = Chain(path, "museum")
                while True:
                    chain.add({"what": "left", "kind": "train", "filler": "x" * 2000})
                    os.write(write, b".")  # it may be sent now
            finally:
                os._exit(1)
        os.close(write)
        os.read(read, 1)
        time.sleep(moments.uniform(0, 0.03))
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        with os.fdopen(read, "rb") as file:
            noted += 1 + len(file.read())
        Chain(path, "museum").verify()
        entries = entries_of(path)
        assert sum(entry["what"] == "left" for entry in entries) >= noted
    assert noted >= KILLS

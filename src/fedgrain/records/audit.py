"""Read a record as an auditor does: verify it, compare it with the other side's, sum it up."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedgrain.records.chain import Head, RecordError, check_head, entries_of, mark_of

COLUMNS = (
    "number", "time", "what", "kind", "site", "run", "round", "message", "bytes", "sha256", "norm",
    "epsilon", "rule", "note", "peer", "hash",
)  # fmt: skip
Entries = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Sum:
    """All messages of one kind that went one way."""

    kind: str
    messages: int
    bytes: int
    first: str
    last: str
    largest_norm: float | None = None


@dataclass(frozen=True)
class Audit:
    """What a record says, after it was verified."""

    path: str
    whose: str
    entries: int
    head: str
    since: str
    until: str
    left: list[Sum]
    came: list[Sum]
    declined: dict[str, int]  # how often, by rule
    failed: int
    repaired: int
    runs: list[str]
    epsilon: float | None  # of all updates with differential privacy that left
    compared: int = 0  # messages that the other side's record has as well
    only_here: list[str] = field(default_factory=list)  # messages the other side does not have


def read_audit(path: Path, head: Head | None = None, peer: Path | None = None) -> Audit:
    """Verify a record, against a noted head and the other side's record if they are given."""
    entries = entries_of(path)
    if not entries:
        raise RecordError(f"{path}: the record is empty; nothing came and nothing left")
    if head is not None:
        check_head(entries, head, path, "the head you gave")
    compared, only = (0, []) if peer is None else _compare(entries, path, entries_of(peer), peer)
    rules = [_rule(entry) for entry in entries]
    spent = [entry["epsilon"] for entry in entries if "epsilon" in entry]
    return Audit(
        str(path),
        str(entries[0].get("whose", "")),
        len(entries),
        Head(len(entries), entries[-1]["hash"]).text(),
        entries[0]["time"],
        entries[-1]["time"],
        sums(entries, "left"),
        sums(entries, "came"),
        {rule: rules.count(rule) for rule in sorted({rule for rule in rules if rule})},
        sum(str(entry.get("note", "")) == "that it failed" for entry in entries),
        sum(entry["what"] == "repaired" for entry in entries),
        sorted({str(entry["run"]) for entry in entries if entry.get("run")}),
        max(spent, default=None),
        compared,
        only,
    )


def sums(entries: Entries, way: str) -> list[Sum]:
    """Sum up what went one way, by kind."""
    found = []
    kinds = [_kind(entry) for entry in entries if entry["what"] == way]
    for kind in dict.fromkeys(kinds):
        own = [entry for entry in entries if entry["what"] == way and _kind(entry) == kind]
        norms = [entry["norm"] for entry in own if "norm" in entry]
        size = sum(int(entry.get("bytes", 0)) for entry in own)
        times = own[0]["time"], own[-1]["time"]
        found.append(Sum(kind, len(own), size, *times, max(norms, default=None)))
    return found


def _kind(entry: Mapping[str, Any]) -> str:
    """Return the kind of a message; a refusal and a failure are kinds of their own."""
    return str(entry.get("note") or entry.get("kind"))


def _rule(entry: Mapping[str, Any]) -> str:
    rule = str(entry.get("rule", ""))
    if not rule.startswith("declined by "):
        return ""
    return rule.removeprefix("declined by ").partition(":")[0]


def _compare(entries: Entries, path: Path, others: Entries, peer: Path) -> tuple[int, list[str]]:
    """Compare with the other side: the heads it noted of this record, and every message's hash."""
    mine = {(e["what"], e["message"]): e for e in entries if e.get("message")}
    for other in others:
        way = {"came": "left", "left": "came"}.get(str(other["what"]), "")
        record, noted = mark_of(str(other["peer"])) if "peer" in other else ("", Head())
        if record == entries[0].get("record"):
            check_head(entries, noted, path, f"the head noted in {peer}, entry {other['number']},")
        own = mine.get((way, other.get("message")))
        if own is None or "sha256" not in own or "sha256" not in other:
            continue  # one side only notes that it failed
        if own["sha256"] != other["sha256"]:
            raise RecordError(
                f"{path}, entry {own['number']}, and {peer}, entry {other['number']}, have "
                f"different hashes of the same message; one of the two sides is wrong about it"
            )
    known = {e.get("message") for e in others}
    shared = {message for _, message in mine} & known
    return len(shared), sorted({str(message) for _, message in mine} - {str(m) for m in known})


def as_csv(entries: Entries) -> str:
    """Return the entries as CSV, one row each."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows([{key: entry.get(key, "") for key in COLUMNS} for entry in entries])
    return file.getvalue()


def as_object(audit: Audit, entries: Entries) -> dict[str, Any]:
    """Return everything as one object for JSON."""
    return {**asdict(audit), "record": [dict(entry) for entry in entries]}

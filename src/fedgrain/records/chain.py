"""An append-only record: a JSON object a line, each with the hash of the line before it.

Every entry is on disk before :meth:`Chain.add` returns. A second file, ``NAME.head``, has the
number and hash of the last entry: a record cut at its end is shorter than its head. Someone who can
write both can cut both; the head that the other side of the network has noted in its own record
then still shows it (:mod:`fedgrain.records.audit`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedgrain.errors import DeploymentError, FedgrainError
from fedgrain.files import open_own, read_bytes, read_text, sync_folder, write_text
from fedgrain.parsing import parse_json

NOTHING = "0" * 64  # the hash before the first entry
ASIDE = "keep it as evidence, move it aside with its head, and start a new one"


class RecordError(DeploymentError):
    """A record is altered, cut, reordered or unreadable."""


@dataclass(frozen=True)
class Head:
    """The last entry of a record: its number, from 1, and its hash."""

    number: int = 0
    hash: str = NOTHING

    def text(self) -> str:
        """Return it as it is noted: NUMBER:HASH."""
        return f"{self.number}:{self.hash}"

    @classmethod
    def of(cls, text: str) -> Head:
        """Read NUMBER:HASH."""
        number, _, found = text.partition(":")
        if not re.fullmatch("[0-9]{1,18}", number) or not re.fullmatch("[0-9a-f]{64}", found):
            raise RecordError(f"{text!r} is not the head of a record; give NUMBER:HASH")
        return cls(int(number), found)


def mark_of(text: str) -> tuple[str, Head]:
    """Read RECORD:NUMBER:HASH, a head as the other side notes it: which record, and how far."""
    record, _, head = text.partition(":")
    if not re.fullmatch("[0-9a-f]{32}", record):
        raise RecordError(f"{text!r} is not the mark of a record")
    return record, Head.of(head)


def hash_of(entry: Mapping[str, Any]) -> str:
    """Return the hash of an entry, over everything in it but the hash itself."""
    content = {key: value for key, value in entry.items() if key != "hash"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def head_path(path: Path) -> Path:
    """Return where the head of a record is."""
    return path.with_name(path.name + ".head")


def entries_of(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a record after checking the chain, and its end against the head."""
    raw = read_bytes(path)
    if raw and not raw.endswith(b"\n"):
        raise RecordError(
            f"{path}: the last line is torn, as by a power cut; the next entry repairs it, "
            "or remove what follows the last complete line"
        )
    entries = checked(raw, path)
    check_head(entries, _head(path), path, "its own head")
    return entries


def checked(raw: bytes, path: Path) -> list[dict[str, Any]]:
    """Return the entries of complete lines; the first one out of order is an error."""
    found: list[dict[str, Any]] = []
    head = Head()
    for number, line in enumerate(raw.split(b"\n")[:-1], 1):
        try:
            entry = parse_json(line.decode(), f"{path}, line {number}")
            same = entry["hash"] == hash_of(entry)
            place = (entry["number"], entry["before"])
        except (FedgrainError, ValueError, KeyError, TypeError):
            raise RecordError(f"{path}, line {number}: not an entry of a record; {ASIDE}") from None
        if not same:
            raise RecordError(f"{path}, line {number}: the entry was altered; {ASIDE}")
        if place != (number, head.hash):
            raise RecordError(
                f"{path}, line {number}: the entry does not follow the one before it: some were "
                f"removed, added or reordered; {ASIDE}"
            )
        found.append(entry)
        head = Head(number, entry["hash"])
    return found


def check_head(entries: Sequence[Mapping[str, Any]], head: Head, path: Path, whose: str) -> None:
    """Raise an error unless a record still has the entry that a head was noted of."""
    if head.number > len(entries):
        raise RecordError(
            f"{path}: cut at its end: {len(entries)} entries, but {whose} is of entry "
            f"{head.number}; {ASIDE}"
        )
    if head.number and entries[head.number - 1]["hash"] != head.hash:
        raise RecordError(
            f"{path}: entry {head.number} is not the one that {whose} was noted of: the record was "
            f"written again; {ASIDE}"
        )


def _head(path: Path) -> Head:
    """Return the head kept next to a record; none before its first entry."""
    beside = head_path(path)
    return Head.of(read_text(beside).strip()) if beside.exists() else Head()


class Chain:
    """A record that is written: by one process at a time, each entry checked onto the last."""

    def __init__(self, path: Path, whose: str) -> None:
        self.path, self.whose = path, whose
        self._size, self.head = -1, Head()
        self._record = ""  # its name, of its first entry

    @property
    def mark(self) -> str:
        """The head as it is sent to the other side: RECORD:NUMBER:HASH."""
        return f"{self._record}:{self.head.text()}"

    def add(self, *entries: Mapping[str, Any]) -> Head:
        """Append entries; return the head. All are on disk when this returns, or none is."""
        with self._open() as descriptor:
            size = os.fstat(descriptor).st_size
            if size != self._size:  # opened first, or someone else wrote
                size = self._check(descriptor)
            new = [] if self.head.number else [self._first()]
            self._record = self._record or str(new[0]["record"])
            self._append(descriptor, size, [*new, *entries])
            # under the lock: another process must not put an older head over a newer one
            write_text(head_path(self.path), self.head.text() + "\n")
        return self.head

    def verify(self) -> None:
        """Check what is there, and repair a torn last line; an altered record is an error."""
        with self._open() as descriptor:
            self._check(descriptor)

    def _first(self) -> dict[str, Any]:
        return {"what": "started", "whose": self.whose, "record": secrets.token_hex(16)}

    @contextmanager
    def _open(self) -> Iterator[int]:
        new = not self.path.exists()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = open_own(self.path, os.O_RDWR)
        except OSError as error:
            raise RecordError(
                f"{self.path}: the record cannot be written ({error.strerror}); nothing leaves "
                "without it"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if new:
                os.fchmod(descriptor, 0o600)
                sync_folder(self.path.parent)
            yield descriptor
        finally:
            os.close(descriptor)

    def _check(self, descriptor: int) -> int:
        """Check the whole record, repair a torn last line, and return the size."""
        raw = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        whole = raw[: raw.rfind(b"\n") + 1]
        entries = checked(whole, self.path)
        check_head(entries, _head(self.path), self.path, "its own head")
        self.head = Head(len(entries), entries[-1]["hash"]) if entries else Head()
        self._record = str(entries[0].get("record", "")) if entries else ""
        if (torn := raw[len(whole) :]) and entries:
            note = {
                "what": "repaired",
                "bytes": len(torn),
                "sha256": hashlib.sha256(torn).hexdigest(),
                "note": "a torn last line, as by a power cut, was removed",
            }
            self._append(descriptor, len(whole), [note])
            return self._size
        os.ftruncate(descriptor, len(whole))
        return len(whole)

    def _append(self, descriptor: int, size: int, entries: Sequence[Mapping[str, Any]]) -> None:
        head, lines = self.head, []
        for entry in entries:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"number": head.number + 1, "time": now, "before": head.hash, **entry}
            line["hash"] = hash_of(line)
            head = Head(head.number + 1, line["hash"])
            lines.append(json.dumps(line, ensure_ascii=True))
        text = "".join(line + "\n" for line in lines).encode()
        try:
            os.ftruncate(descriptor, size)
            os.lseek(descriptor, size, os.SEEK_SET)
            rest = text
            while rest:  # a full disk may write a part before it raises an error
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        except BaseException:
            os.ftruncate(descriptor, size)
            raise
        self.head, self._size = head, size + len(text)

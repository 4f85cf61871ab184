"""A peer as a process that runs one round for each "go", and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from peers.environments import PeerError

START_LIMIT = 180.0  # seconds
ROUND_LIMIT = 300.0
STOP_LIMIT = 20.0
MARK = "FEDGRAIN_BENCH_MARK"  # in the environment of all that a peer starts, daemons included


class Peer:
    """A peer's script in its own environment.

    Not in a session of its own: Linux may share out a busy machine by sessions (autogroup).
    """

    def __init__(
        self, python: Path, script: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        self._mark, self._log, self._pending = uuid.uuid4().hex, log, b""
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [str(python), str(script)],
                env={**_without_python_settings(), **environment, MARK: self._mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def __enter__(self) -> Peer:
        try:
            self._answer(START_LIMIT)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def round(self) -> float:
        """Run one round and return the seconds it took by the peer's own clock."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()
        except OSError:
            raise PeerError(self._ended()) from None
        return float(self._answer(ROUND_LIMIT)["seconds"])

    def close(self) -> None:
        """End the peer: by the end of its input, then by force; and whatever it started."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        for _ in range(3):  # a daemon may be starting another
            left = processes_with(self._mark)
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if not left:
                return
            time.sleep(0.2)

    def _answer(self, limit: float) -> dict[str, Any]:
        line = self._line(limit)
        try:
            answer: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            raise PeerError(f"answered {line[:80]!r}") from None
        if "error" in answer:
            raise PeerError(" ".join(str(answer["error"]).split())[:200])
        return answer

    def _line(self, limit: float) -> bytes:
        assert self._process.stdout is not None
        until = time.monotonic() + limit
        while b"\n" not in self._pending:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise PeerError(f"no answer within {limit:.0f} s")
            part = os.read(self._process.stdout.fileno(), 65536)
            if not part:
                raise PeerError(self._ended())
            self._pending += part
        line, self._pending = self._pending.split(b"\n", 1)
        return line

    def _ended(self) -> str:
        """Say how it ended, with the last line it wrote."""
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line]
        return f"it ended: {lines[-1].strip()[:200] if lines else 'it said nothing'}"


def processes_with(mark: str) -> list[int]:
    """Return the processes whose environment holds the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # another user's, or gone
            continue
    return found


def _without_python_settings() -> dict[str, str]:
    """Our environment without what would lead the peer's Python to our packages."""
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in ours}

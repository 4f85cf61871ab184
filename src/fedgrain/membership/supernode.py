"""Flower's SuperNode, without its long waits: ``python -m fedgrain.membership.supernode OPTIONS``.

Flower 1.41 looks for a message every 3 seconds and starts a program for each. Here it looks more
often while a run goes on, and :mod:`fedgrain.membership.messenger`, woken by a byte on a pipe, runs
the messages. That process is started again when it dies. Only it can ask the SuperNode for
messages: they share a secret.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from fedgrain.handover.private_socket import private_folder

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    # a SuperNode installs nothing by default; keep it so even if the default changes
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
_BUSY_SECONDS = 120.0  # after a message, the next one is expected for so long
# seconds between two looks: for a message, and for a reply or a part that is on its way
_SOON, _LATER, _REPLY = 0.2, 2.0, 0.05
_AGAIN_SECONDS = 1.0  # before a messenger that died is started again


class Clock:
    """The module ``time`` as Flower's main loop sees it: it sleeps less while there is work."""

    def __init__(self) -> None:
        self._busy_until = 0.0

    def sleep(self, seconds: float) -> None:
        """Wait for a reply (Flower: half a second) or for the next message (3 seconds)."""
        now = time.monotonic()
        if seconds < 1:
            self._busy_until = now + _BUSY_SECONDS
            time.sleep(min(seconds, _REPLY))
        else:
            time.sleep(min(seconds, _SOON if now < self._busy_until else _LATER))

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class Bell:
    """Wakes the messenger as soon as there is a message: a byte on its standard input."""

    def __init__(self) -> None:
        self.heard, self._rung = os.pipe()
        os.set_blocking(self._rung, False)

    def before(self, call: Callable[..., None]) -> Callable[..., None]:
        """Return the function with a ring before it."""

        def ringing(*arguments: Any, **named: Any) -> None:
            with suppress(OSError):  # it looks by itself as well, if more seldom
                os.write(self._rung, b".")
            call(*arguments, **named)

        return ringing


def keep_messenger(port: int, secret: Path, bell: Bell) -> None:
    """Start the process that takes messages from the SuperNode, again whenever it ends."""
    command = [
        sys.executable, "-m", "fedgrain.membership.messenger", "--insecure",
        "--runtime-api-address", f"127.0.0.1:{port}", "--superexec-auth-secret-file", str(secret),
    ]  # fmt: skip

    def keep() -> None:
        while True:
            subprocess.Popen(command, stdin=bell.heard).wait()
            time.sleep(_AGAIN_SECONDS)

    threading.Thread(target=keep, daemon=True).start()


def run_supernode(arguments: Sequence[str], port: int) -> None:
    """Run Flower's SuperNode until stopped; it listens on loopback alone."""
    os.environ.update(QUIET)
    from flwr.supercore.inflatable.inflatable_utils import pull_objects
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    secret = private_folder() / f"supernode-{port}.secret"
    secret.unlink(missing_ok=True)
    with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(32))
    bell, flower = Bell(), start_client_internal
    setattr(flower, "time", Clock())  # noqa: B010
    setattr(flower, "pull_objects", partial(pull_objects, initial_backoff=_REPLY))  # noqa: B010
    # Flower calls this when it has a message: it waits for the reply and sends it
    setattr(flower, "_push_messages", bell.before(flower._push_messages))  # noqa: B010
    keep_messenger(port, secret, bell)
    options = ["--host", "127.0.0.1", "--port", str(port), "--isolation", "process",
               "--superexec-auth-secret-file", str(secret)]  # fmt: skip
    sys.argv = ["flower-supernode", *arguments, *options]
    flower_supernode()


if __name__ == "__main__":
    number = sys.argv.index("--port")
    run_supernode([*sys.argv[1:number], *sys.argv[number + 2 :]], int(sys.argv[number + 1]))

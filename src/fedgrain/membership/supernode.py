"""Flower's SuperNode, without its long waits: ``python -m fedgrain.membership.supernode OPTIONS``.

Flower 1.41 looks for a message every 3 seconds and starts a program for each. Here it looks more
often while a run goes on (:mod:`fedgrain.handover.message_loop`), and
:mod:`fedgrain.membership.messenger`, woken by a byte on a pipe, runs the messages. That process is
started again when it dies. Only it can ask the SuperNode for messages: they share a secret.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from fedgrain.handover.bell import Bell
from fedgrain.handover.private_socket import private_folder

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    # a SuperNode installs nothing by default; keep it so even if the default changes
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
SUPERNODE = "FEDGRAIN_SUPERNODE"  # the process that the messenger ends with
# the messenger speaks to this machine alone; a proxy is for the way to the server
_NO_PROXY = {"no_proxy": "*", "NO_PROXY": "*"}
_AGAIN_SECONDS = 1.0  # before a messenger that died is started again


def keep_messenger(port: int, secret: Path, bell: Bell) -> None:
    """Start the process that takes messages from the SuperNode, again whenever it ends."""
    command = [
        sys.executable, "-P", "-m", "fedgrain.membership.messenger", "--insecure",
        "--runtime-api-address", f"127.0.0.1:{port}", "--superexec-auth-secret-file", str(secret),
    ]  # fmt: skip

    environment = {**os.environ, **_NO_PROXY, SUPERNODE: str(os.getpid())}

    def keep() -> None:
        while True:
            subprocess.Popen(command, stdin=bell.heard, env=environment).wait()
            time.sleep(_AGAIN_SECONDS)

    threading.Thread(target=keep, daemon=True).start()


def run_supernode(arguments: Sequence[str], port: int) -> None:
    """Run Flower's SuperNode until stopped; it listens on loopback alone."""
    os.environ.update(QUIET)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a site takes weights from its own files
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    from fedgrain.handover.message_loop import improve

    secret = private_folder() / f"supernode-{port}.secret"
    secret.unlink(missing_ok=True)
    with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(32))
    bell = Bell()
    improve(start_client_internal, bell)
    keep_messenger(port, secret, bell)
    options = ["--host", "127.0.0.1", "--port", str(port), "--isolation", "process",
               "--superexec-auth-secret-file", str(secret)]  # fmt: skip
    sys.argv = ["flower-supernode", *arguments, *options]
    flower_supernode()


if __name__ == "__main__":
    number = sys.argv.index("--port")
    run_supernode([*sys.argv[1:number], *sys.argv[number + 2 :]], int(sys.argv[number + 1]))

"""A Unix socket that only one user can open: a folder of mode 0700, and the peer's user checked."""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
import time
from pathlib import Path

from fedgrain.errors import DeploymentError

_OLD_SECONDS = 3600.0
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def private_folder() -> Path:
    """Return the folder of this user's sockets; one that others could write to is refused."""
    base = os.environ.get("XDG_RUNTIME_DIR") or ""
    place = (
        Path(base) / "fedgrain"
        if base and Path(base).is_dir() and os.access(base, os.W_OK)
        else Path(tempfile.gettempdir()) / f"fedgrain-{os.getuid()}"
    )
    place.mkdir(mode=0o700, exist_ok=True)
    found = place.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not ours or stat.S_IMODE(found.st_mode) != 0o700:
        raise DeploymentError(
            f"{place} must be a folder of mode 0700 that belongs to you; remove it, or set "
            "XDG_RUNTIME_DIR to a folder of your own"
        )
    return place


def listen(path: Path) -> socket.socket:
    """Listen at a path; what a killed process left there is replaced."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        server.bind(str(aside))
    finally:
        os.umask(before)
    server.listen(16)
    aside.replace(path)
    return server


def connect(path: Path) -> socket.socket | None:
    """Return a connection to a process of the same user; None if nobody listens."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        client.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        client.close()
        return None
    if not same_user(client):
        client.close()
        raise DeploymentError(f"{path}: the process that listens there belongs to another user")
    return client


def same_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end runs as this user, as the kernel says.

    Where the kernel cannot be asked, the mode of the folder is all there is.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    raw = connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(raw)
    return bool(user == os.getuid())


def forget_old(folder: Path) -> None:
    """Remove sockets that nobody listens at any more, an hour after they were made."""
    for path in folder.glob("*.sock"):
        try:
            old = time.time() - path.lstat().st_mtime > _OLD_SECONDS
            if old and (found := connect(path)) is not None:
                found.close()
            elif old:
                path.unlink(missing_ok=True)
                path.with_suffix(".lock").unlink(missing_ok=True)
        except OSError:
            continue

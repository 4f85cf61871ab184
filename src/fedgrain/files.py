"""Write files completely or not at all: to a temporary file, then rename. Links are refused."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fedgrain.errors import FedgrainError

_OURS = os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def written_whole(path: str | Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path to write to; the file replaces ``path`` on success."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(aside, os.O_WRONLY | os.O_EXCL | _OURS, mode))
        try:
            yield aside
            with aside.open("rb") as file:
                os.fsync(file.fileno())
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        if error.filename == str(aside):  # our temporary name, not the user's
            error.filename = str(path)
        raise


def remove_parts(folder: Path, names: Sequence[str]) -> None:
    """Remove temporary files of these names that a killed process has left; nothing else."""
    for part in parts_of(folder, names):
        part.unlink(missing_ok=True)


def parts_of(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return temporary files that :func:`written_whole` has left for these names in a folder."""
    wanted = re.compile(rf"\.({'|'.join(map(re.escape, names))})\.[0-9a-f]+\.part")
    found = (path for path in folder.iterdir() if wanted.fullmatch(path.name))
    return [path for path in found if stat.S_ISREG(path.lstat().st_mode)]


def sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, on systems where folders can be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with written_whole(path) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")


def open_own(path: str | Path, flags: int) -> int:
    """Open a file of ours, creating it if needed; refuse a link or a device."""
    try:
        descriptor = os.open(path, flags | _OURS | getattr(os, "O_NONBLOCK", 0), 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
    else:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    raise FedgrainError(
        f"{path}: a link or a device, which fedgrain does not write through; remove it"
    )


def allocate(descriptor: int, size: int) -> None:
    """Reserve disk space for a file now, so that a full disk is an error and not a signal later."""
    os.ftruncate(descriptor, size)
    if size and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise


def append_line(path: str | Path, line: str) -> None:
    """Append one complete line or nothing; it is on disk when this returns.

    An incomplete last line, left by a power cut, stays a separate line.
    """
    path = Path(path)
    new = not path.exists()
    with os.fdopen(open_own(path, os.O_RDWR | os.O_APPEND), "a+b", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            text = line.encode() + b"\n"
            if before and os.pread(file.fileno(), 1, before - 1) != b"\n":
                text = b"\n" + text
            while text:  # a full disk may write a part before it raises an error
                text = text[file.write(text) :]
            os.fsync(file.fileno())
        except BaseException:
            os.truncate(file.fileno(), before)
            raise
    if new:
        sync_folder(path.parent)


def read_text(path: str | Path) -> str:
    """Read a UTF-8 text file (a byte order mark is dropped); say which line is not UTF-8."""
    return decoded(read_bytes(path), path)


def read_bytes(path: str | Path) -> bytes:
    """Read a file; refuse folders and named pipes, which could block forever.

    The pipes a shell makes (``<(...)``, /dev/stdin) are read.
    """
    try:
        is_pipe = stat.S_ISFIFO(Path(path).stat().st_mode)
        if is_pipe and not str(path).startswith(("/dev/", "/proc/")):
            raise FedgrainError(f"{path}: a named pipe where a file is wanted; remove it")
        return Path(path).read_bytes()
    except IsADirectoryError:
        raise FedgrainError(f"{path}: a folder where a file is wanted; name one in it") from None


def decoded(raw: bytes, path: str | Path) -> str:
    """Return the text of a UTF-8 file; say which line is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FedgrainError(
            f"{path}, line {line}: byte 0x{raw[error.start]:02x} is not UTF-8; "
            "save the file as UTF-8 and try again"
        ) from None

"""Files are written whole or not at all: write aside, then rename."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedgrain.errors import FedgrainError


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to; it takes the place of ``path`` only on success."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield aside
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        if error.filename == str(aside):  # a name nobody has given
            error.filename = str(path)
        raise
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with written_whole(path) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")


def append_line(path: str | Path, line: str) -> None:
    """Append one line, all of it or nothing; it is on the disk when this returns.

    A last line that a power cut has left without its end stays a line of its own.
    """
    with Path(path).open("a+b", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            text = line.encode() + b"\n"
            if before and os.pread(file.fileno(), 1, before - 1) != b"\n":
                text = b"\n" + text
            while text:  # a disk that fills up takes a part first, and then refuses
                text = text[file.write(text) :]
            os.fsync(file.fileno())
        except BaseException:
            os.truncate(file.fileno(), before)
            raise


def read_text(path: str | Path) -> str:
    """Read a UTF-8 text file (a byte order mark is dropped); say which line is not UTF-8."""
    try:
        raw = Path(path).read_bytes()
    except IsADirectoryError:
        raise FedgrainError(f"{path}: a folder where a file is wanted; name one in it") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FedgrainError(
            f"{path}, line {line}: byte 0x{raw[error.start]:02x} is not UTF-8; "
            "save the file as UTF-8 and try again"
        ) from None

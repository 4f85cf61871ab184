"""Unpack untrusted archives safely: inside their folder, without bombs, completely or not at all.

Tar archives go through ``tarfile`` with ``filter="data"``; links and devices are refused as well,
since no data set needs them. A decompression bomb is stopped by counting the bytes that come out
of the decompressor, whatever the headers claim.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from fedgrain.errors import DataError
from fedgrain.files import sync_folder

_MAX_MEMBERS = 5_000_000
_MAX_RATIO = 100  # images hardly compress; zeros compress a thousandfold and more
DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError,
    RuntimeError,  # zipfile raises it for a password, or an unknown compression
)  # fmt: skip
_FREE_BYTES = 16 * 2**20  # any archive may unpack to this size


class _Counted:
    """A decompressed stream that refuses to give more than ``limit`` bytes."""

    def __init__(self, stream: IO[bytes], limit: int, name: str) -> None:
        self._stream, self._left, self._name = stream, limit, name

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(content)
        if self._left < 0:
            raise bomb(self._name)
        return content


def bomb(name: str) -> DataError:
    """Return the error for an archive that grows too large."""
    return DataError(
        f"{name}: unpacks to more than {_MAX_RATIO} times its size (a decompression bomb?); "
        "get the archive from its official source"
    )


def unpack(archive: Path, target: Path) -> None:
    """Unpack an archive into a new directory ``target``, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as aside:
        folder = Path(aside) / "content"
        folder.mkdir()
        limit = archive.stat().st_size * _MAX_RATIO + _FREE_BYTES
        try:
            (_unpack_zip if archive.suffix == ".zip" else _unpack_tar)(archive, folder, limit)
        except DAMAGE as error:
            raise damaged(archive, error) from None
        except OSError as error:
            if error.errno is None:  # gzip and bz2 raise it for a damaged stream
                raise damaged(archive, error) from None
            raise
        move_into_place(folder, target)


def damaged(archive: Path, error: Exception) -> DataError:
    """Return the error for an archive that cannot be read."""
    return DataError(f"{archive}: the archive is damaged ({error}); get it again")


def move_into_place(folder: Path, target: Path) -> None:
    """Rename a finished directory; if another process was first, its equal content stays."""
    try:
        folder.rename(target)
        sync_folder(target.parent)
    except OSError:
        if not target.is_dir():
            raise


def _unpack_tar(archive: Path, folder: Path, limit: int) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise DataError("this Python cannot unpack archives safely; use Python 3.11.4 or newer")
    with _tar_stream(archive, limit) as tar:
        for count, member in enumerate(tar):
            if count >= _MAX_MEMBERS:
                raise DataError(f"{archive}: more than {_MAX_MEMBERS} files; refused")
            plain = (member.isfile() and not member.issparse()) or member.isdir()
            if not plain or escapes(member.name):  # holes are bytes that were never counted
                raise refused(archive, member.name)
            tar.extract(member, folder, filter="data")


@contextmanager
def _tar_stream(archive: Path, limit: int) -> Iterator[tarfile.TarFile]:
    openers: dict[str, Callable[[Path], Any]] = {
        ".gz": gzip.open,
        ".tgz": gzip.open,
        ".xz": lzma.open,
        ".bz2": bz2.open,
        ".tar": lambda path: path.open("rb"),
    }
    with openers[archive.suffix](archive) as plain:
        counted = cast(IO[bytes], _Counted(plain, limit, str(archive)))
        with tarfile.open(fileobj=counted, mode="r|") as tar:
            yield tar


def _unpack_zip(archive: Path, folder: Path, limit: int) -> None:
    with zipfile.ZipFile(archive) as zipped:
        members = zipped.infolist()
        if len(members) > _MAX_MEMBERS:
            raise DataError(f"{archive}: more than {_MAX_MEMBERS} files; refused")
        if sum(member.file_size for member in members) > limit:
            raise bomb(str(archive))
        for member in members:  # zipfile never yields more than the file_size just counted
            if escapes(member.filename) or stat.S_ISLNK(member.external_attr >> 16):
                raise refused(archive, member.filename)
            target = folder / member.filename
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with zipped.open(member) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)


def escapes(name: str) -> bool:
    """Whether a member's name leads out of the folder it is unpacked into."""
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or any(":" in part for part in path.parts[:1])


def refused(archive: Path, name: str) -> DataError:
    """Return the error for a member that is a link, a device or lies outside the folder."""
    return DataError(
        f"{archive}: its member {name!r} would be written outside its folder or is not a plain "
        "file; nothing was unpacked: get the archive from its official source"
    )

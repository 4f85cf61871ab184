"""Archives that try to get out of their folder, or to fill the disk."""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from attacks.harness import WrongError, alone, as_command
from attacks.world import World


def _tar(kind: bytes, name: str, link: str = "") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "bad.tar"
        with tarfile.open(path, "w") as tar:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            member.size = 5 if kind == tarfile.REGTYPE else 0
            member.mode = 0o6777
            tar.addfile(member, io.BytesIO(b"pwned") if member.size else None)
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                behind = tarfile.TarInfo(f"{name}/through" if kind == tarfile.SYMTYPE else name)
                behind.size = 5
                tar.addfile(behind, io.BytesIO(b"pwned"))
        return path

    return make


def _zip(name: str, mode: int = stat.S_IFREG | 0o644) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "bad.zip"
        with zipfile.ZipFile(path, "w") as zipped:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            zipped.writestr(info, "../outside" if stat.S_ISLNK(mode) else "pwned")
        return path

    return make


def _bomb(ending: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / f"bad.{ending}"
        zeros = bytes(60_000_000)
        if ending == "zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
                zipped.writestr("zeros", zeros)
        else:
            with tarfile.open(path, f"w:{ending[4:]}") as tar:
                member = tarfile.TarInfo("zeros")
                member.size = len(zeros)
                tar.addfile(member, io.BytesIO(zeros))
        return path

    return make


def _lying_zip(folder: Path) -> Path:
    """A zip that claims ten bytes and holds 60 million."""
    path = _bomb("zip")(folder)
    raw = path.read_bytes().replace(struct.pack("<I", 60_000_000), struct.pack("<I", 10))
    path.write_bytes(raw)
    return path


ARCHIVES: dict[str, Callable[[Path], Path]] = {
    "tar to the folder above": _tar(tarfile.REGTYPE, "../outside"),
    "tar to an absolute path": _tar(tarfile.REGTYPE, "/tmp/fedgrain-attack-outside"),
    "tar with dots inside": _tar(tarfile.REGTYPE, "a/../../outside"),
    "tar with a link out": _tar(tarfile.SYMTYPE, "link", "../.."),
    "tar with an absolute link": _tar(tarfile.SYMTYPE, "link", "/"),
    "tar with a hard link out": _tar(tarfile.LNKTYPE, "link", "../outside"),
    "tar with a device": _tar(tarfile.CHRTYPE, "device"),
    "tar with a pipe": _tar(tarfile.FIFOTYPE, "pipe"),
    "zip to the folder above": _zip("../outside"),
    "zip to an absolute path": _zip("/tmp/fedgrain-attack-outside"),
    "zip with backslashes": _zip("..\\..\\outside"),
    "zip with a link": _zip("link", stat.S_IFLNK | 0o777),
    "bomb in a zip": _bomb("zip"),
    "bomb in a tar.gz": _bomb("tar.gz"),
    "bomb in a tar.xz": _bomb("tar.xz"),
    "zip that lies about its size": _lying_zip,
}


def unpacking(make: Callable[[Path], Path]) -> Callable[[World, Path], None]:
    def attempt(world: World, scratch: Path) -> None:
        from fedgrain.images.archives import unpack

        inner = scratch / "a" / "b"
        inner.mkdir(parents=True)
        outside = [scratch / "outside", scratch / "a" / "outside", inner / "outside"]
        for path in outside:
            path.write_text("mine")
        archive = make(scratch)
        told = alone(lambda: as_command(lambda: unpack(archive, inner / "target")))
        if told.judged().code == 0 and archive.suffix != ".zip":
            raise WrongError("it is not refused")
        if any(path.read_text() != "mine" for path in outside):
            raise WrongError("a file outside was changed")
        if Path("/tmp/fedgrain-attack-outside").exists():
            raise WrongError("a file was written to an absolute path")
        names = {path.name for path in inner.iterdir()} - {"outside"}
        if told.code and names:
            raise WrongError(f"{names} is left behind")
        if any(path.is_symlink() for path in inner.rglob("*")):
            raise WrongError("a link was made")
        size = sum(path.stat().st_size for path in inner.rglob("*") if path.is_file())
        if size > 17_000_000 + 100 * archive.stat().st_size:
            raise WrongError(f"{size} bytes came out")

    return attempt

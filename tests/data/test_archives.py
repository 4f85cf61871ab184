import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from fedgrain.errors import DataError
from fedgrain.images.archives import unpack

MODES = {
    "a.tar.gz": "w:gz",
    "a.tar.xz": "w:xz",
    "a.tar.bz2": "w:bz2",
    "a.tgz": "w:gz",
    "a.tar": "w",
}


def tar_with(path: Path, *members: tarfile.TarInfo | tuple[str, bytes]) -> Path:
    with tarfile.open(path, MODES[path.name]) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    return path


def link(name: str, kind: bytes, target: str = "/etc/passwd") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def refused(archive: Path, message: str) -> None:
    """Refused, with nothing left behind: neither the target nor what was unpacked before."""
    folder = archive.parent
    before = sorted(folder.rglob("*"))
    with pytest.raises(DataError, match=message) as error:
        unpack(archive, folder / "target")
    assert str(archive) in str(error.value)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", MODES)
def test_every_kind_of_tar_unpacks(tmp_path, name):
    archive = tar_with(tmp_path / name, ("top/one", b"1" * 5000), ("top/deep/two", b"22"))
    unpack(archive, tmp_path / "target")
    assert (tmp_path / "target/top/one").read_bytes() == b"1" * 5000
    assert (tmp_path / "target/top/deep/two").read_bytes() == b"22"
    assert sorted(p.name for p in tmp_path.iterdir()) == [name, "target"]


def test_zip_unpacks(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.mkdir("top")
        zipped.writestr("top/deep/two", b"22")
    unpack(tmp_path / "a.zip", tmp_path / "target")
    assert (tmp_path / "target/top/deep/two").read_bytes() == b"22"


@pytest.mark.parametrize("name", ["../x", "/tmp/fedgrain-x", "top/../../x", "..\\x", "C:/x"])
def test_no_member_leads_outside(tmp_path, name):
    (tmp_path / "in").mkdir()
    refused(
        tar_with(tmp_path / "in/a.tar.gz", ("fine", b"1"), (name, b"evil")), "outside its folder"
    )
    with zipfile.ZipFile(tmp_path / "in/a.zip", "w") as zipped:
        zipped.writestr("fine", b"1")
        zipped.writestr(name, b"evil")
    refused(tmp_path / "in/a.zip", "outside its folder")
    assert not (tmp_path / "x").exists() and not Path("/tmp/fedgrain-x").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_are_refused(tmp_path, kind):
    archive = tar_with(tmp_path / "a.tar.xz", ("fine", b"1"), link("bad", kind))
    refused(archive, "'bad' would be written outside its folder or is not a plain file")


def test_a_link_in_a_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        info = zipfile.ZipInfo("bad")
        info.external_attr = 0o120777 << 16
        zipped.writestr(info, "/etc/passwd")
    refused(tmp_path / "a.zip", "not a plain file")


class Zeros(io.RawIOBase):
    """Zeros without end, for members that are larger than one wants to hold."""

    def read(self, size: int = -1) -> bytes:
        return bytes(size)


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar.xz"])
def test_a_bomb_is_stopped_before_it_fills_the_disk(tmp_path, name):
    info = tarfile.TarInfo("zeros")
    info.size = 40 * 2**20  # 16 MB are free to everyone; this compresses a thousandfold
    with tarfile.open(tmp_path / name, MODES[name]) as tar:
        tar.addfile(info, Zeros())
    refused(tmp_path / name, "decompression bomb")


def test_a_zip_bomb_is_refused(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as zipped,
        zipped.open("zeros", "w") as file,
    ):
        for _ in range(40):
            file.write(bytes(2**20))
    refused(tmp_path / "a.zip", "decompression bomb")


def test_a_file_of_holes_is_refused(tmp_path):
    """A sparse member is small in the archive and as large as it says on the disk."""
    info = tarfile.TarInfo("holes")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                        "GNU.sparse.name": "holes", "GNU.sparse.realsize": str(10**12)}  # fmt: skip
    content = b"1\n0\n1\n".ljust(512, b"\0") + b"x"
    info.size = len(content)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(content))
    refused(tmp_path / "a.tar.gz", "holes")


@pytest.mark.parametrize(("place", "value"), [(6, 1), (8, 9)])  # flags: encrypted; deflate64
def test_a_zip_that_cannot_be_read_says_so(tmp_path, place, value):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("one", b"1")
    content = bytearray((tmp_path / "a.zip").read_bytes())
    for header, shift in ((b"PK\3\4", 0), (b"PK\1\2", 2)):
        content[content.index(header) + place + shift] = value
    (tmp_path / "a.zip").write_bytes(content)
    refused(tmp_path / "a.zip", "the archive is damaged")


def test_a_header_that_claims_to_be_huge_takes_no_memory(tmp_path):
    """A pax header is read whole into memory; the counter stops it as well."""
    info = tarfile.TarInfo("PaxHeaders/x")
    info.type, info.size = tarfile.XHDTYPE, 10**11
    with lzma.open(tmp_path / "a.tar.xz", "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(24):
            file.write(bytes(2**20))
    refused(tmp_path / "a.tar.xz", "decompression bomb")


@pytest.mark.parametrize("name", [*MODES, "a.zip"])
def test_a_damaged_archive_says_so(tmp_path, name):
    archive = tmp_path / name
    if name == "a.zip":
        with zipfile.ZipFile(archive, "w") as zipped:
            zipped.writestr("one", b"1" * 10_000)
    else:
        tar_with(archive, ("one", bytes(range(256)) * 200))
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    refused(archive, "the archive is damaged")
    archive.write_bytes(b"not an archive at all")
    refused(archive, "the archive is damaged")

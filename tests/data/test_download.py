import hashlib
import io
import tarfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from fedgrain.catalogue import DOWNLOADABLE
from fedgrain.data import cifar100, download, load_dataset
from fedgrain.data.load import layouts
from fedgrain.errors import DataError
from fedgrain.images.places import find_source


class Mirror:
    """A real HTTP server on this machine that hands out one archive, or breaks off."""

    def __init__(self) -> None:
        self.content, self.break_offs, self.requests = b"", 0, 0
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.requests += 1
                if not self.path.endswith(".tar.gz"):
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(mirror.content)))
                self.end_headers()
                broken = mirror.requests <= mirror.break_offs
                self.wfile.write(mirror.content[: len(mirror.content) // 2 if broken else None])

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/pub"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def mirror(cache, monkeypatch):
    found = Mirror()
    monkeypatch.setenv("FEDGRAIN_MIRROR", found.url)
    yield found
    found.server.shutdown()
    found.server.server_close()


def archive(*names: str) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 20_000
            tar.addfile(info, io.BytesIO(bytes(range(250)) * 80))
    return raw.getvalue()


WHOLE = archive(*(f"cifar-100-python/{name}" for name in ("train", "test", "meta")))


@pytest.fixture
def published(mirror, monkeypatch):
    """Publish an archive: the mirror has it, and its checksum is the official one."""

    def publish(content: bytes) -> None:
        mirror.content = content
        md5 = hashlib.md5(content).hexdigest()
        monkeypatch.setattr(cifar100, "LAYOUT", replace(cifar100.LAYOUT, md5=md5))

    return publish


def left_over(cache) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def test_downloads_checks_and_unpacks(mirror, published, cache):
    published(WHOLE)
    folder = download.get("cifar100")
    assert folder == cache / "cifar-100-python"
    assert (folder / "test").read_bytes() == bytes(range(250)) * 80
    assert left_over(cache) == ["cifar-100-python"]
    assert find_source(cifar100.LAYOUT) == folder
    assert download.get("cifar100") == folder and mirror.requests == 1  # there already


def test_a_transfer_that_breaks_off_is_tried_again(mirror, published, cache):
    published(WHOLE)
    mirror.break_offs = 2
    assert download.get("cifar100").is_dir() and mirror.requests == 3


def test_a_transfer_that_keeps_breaking_off_leaves_nothing(mirror, published, cache):
    published(WHOLE)
    mirror.break_offs = 99
    with pytest.raises(
        DataError, match=r"cannot be downloaded \(the transfer broke off\); get cifar"
    ):
        download.get("cifar100")
    assert mirror.requests == download.ATTEMPTS and left_over(cache) == []


def test_a_wrong_checksum_leaves_nothing(mirror, cache):
    mirror.content = WHOLE
    with pytest.raises(
        DataError, match="does not have the official md5 eb9058c3a382ffc7106e4002c42"
    ):
        download.get("cifar100")
    assert left_over(cache) == []


def test_an_archive_that_writes_outside_is_refused(mirror, published, cache):
    published(archive("cifar-100-python/train", "../escaped"))
    with pytest.raises(DataError, match=r"its member '\.\./escaped' would be written outside"):
        download.get("cifar100")
    assert left_over(cache) == ["cifar-100-python.tar.gz"]
    assert not (cache.parent / "escaped").exists()


def test_an_archive_of_something_else_is_refused(mirror, published, cache):
    published(archive("something-else/train"))
    with pytest.raises(DataError, match="does not hold cifar-100-python in its official layout"):
        download.get("cifar100")
    assert not (cache / "cifar-100-python").exists()


def test_offline_it_says_where_to_put_the_file(mirror, cache):
    mirror.server.shutdown()
    mirror.server.server_close()  # nobody listens there now
    with pytest.raises(DataError) as error:
        download.get("cifar100")
    text = str(error.value)
    assert (
        "no connection" in text
        and f"get cifar-100-python.tar.gz elsewhere and put it into {cache}" in text
    )
    assert "\n" not in text and left_over(cache) == []


def test_what_the_server_does_not_have(mirror, cache):
    with pytest.raises(DataError, match=r"tiny-imagenet-200\.zip cannot be downloaded \(404"):
        download.get("tiny-imagenet")


def test_the_catalogue_and_the_layouts_agree_on_what_can_be_downloaded():
    with_site = [name for name, layout in layouts().items() if layout.site and layout.md5]
    assert with_site == list(DOWNLOADABLE)


def test_only_what_is_published_can_be_got(cache):
    with pytest.raises(DataError, match="'imagenet' cannot be downloaded"):
        download.get("imagenet")


def test_what_was_got_is_loaded_and_checked(mirror, published, cache):
    published(WHOLE)
    folder = download.get("cifar100")
    with pytest.raises(DataError, match="is not the official") as error:
        load_dataset("cifar100")
    assert str(folder) in str(error.value)

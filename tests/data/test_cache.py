"""The cache of decoded images: damage is mended, a full disk is told, nothing stays behind."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from damage import flips
from fedgrain.errors import DataError
from fedgrain.images import cache as cache_module
from fedgrain.images.cache import drop_images, load_or_build
from fedgrain.images.decode import Decoding, Listing, load_or_decode

KEY = {"dataset": "test"}
IMAGES = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 3), dtype=np.uint8)


def build(folder: Path) -> dict[str, object]:
    np.save(folder / "images.npy", IMAGES)
    np.save(folder / "labels.npy", np.arange(6, dtype=np.int32))
    np.save(folder / "splits.npy", np.zeros(6, np.int8))
    return {"count": 6, "unreadable": [], "warnings": []}


def test_a_cache_that_cannot_be_written_names_the_way_out(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("FEDGRAIN_CACHE", str(tmp_path / "taken" / "cache"))
    with pytest.raises(DataError, match=r"cache cannot be written \(.*point FEDGRAIN_CACHE at a"):
        load_or_build(KEY, build)


def never(_: Path) -> dict[str, object]:
    raise AssertionError("built again")


def entry_in(cache: Path) -> Path:
    (entry,) = [path for path in (cache / "arrays").iterdir() if path.is_dir()]
    return entry


@pytest.fixture
def entry(cache: Path) -> Path:
    load_or_build(KEY, build)
    return entry_in(cache)


@pytest.mark.parametrize("name", ["images.npy", "labels.npy", "splits.npy", "about.json"])
def test_a_flipped_bit_anywhere_makes_the_entry_again(entry, name, caplog) -> None:
    load_or_build(KEY, never)
    tries = 0
    for place in flips(entry / name):
        assert cache_module._load(entry) is None, place
        tries += 1
        if place % 50:
            continue
        with caplog.at_level(logging.WARNING, "fedgrain"):
            caplog.clear()
            stored = load_or_build(KEY, build)
        assert len(caplog.records) == 1 and "rebuilding the cache entry" in caplog.text
        np.testing.assert_array_equal(stored.images, IMAGES)
        assert stored.labels.tolist() == list(range(6))
        assert stored.about == {"count": 6, "unreadable": [], "warnings": []}
    assert tries > 100


@pytest.mark.parametrize("what", ["gone", "cut off", "empty", "a folder", "old", "a file"])
def test_any_other_damage_makes_it_again_too(entry, what) -> None:
    for name in ("images.npy", "labels.npy", "splits.npy", "about.json"):
        path = entry / name
        if what == "gone":
            path.unlink()
        elif what == "a folder":
            path.unlink()
            path.mkdir()
        elif what == "old":  # without checksums, as earlier versions wrote it
            (entry / "about.json").write_text(json.dumps({"count": 6, "unreadable": []}))
        elif what == "a file":
            shutil.rmtree(entry)
            entry.write_text("")
        else:
            path.write_bytes(path.read_bytes()[: 0 if what == "empty" else -3])
        stored = load_or_build(KEY, build)
        np.testing.assert_array_equal(stored.images, IMAGES)
        load_or_build(KEY, never)
    assert not list(entry.parent.glob(".*.????????"))


def test_other_processes_keep_what_they_mapped(entry) -> None:
    before = load_or_build(KEY, never).images
    (entry / "labels.npy").write_bytes(b"")
    load_or_build(KEY, build)
    np.testing.assert_array_equal(before, IMAGES)


def test_images_that_cannot_be_read_need_no_second_copy(tmp_path) -> None:
    path = cache_module.create_images(tmp_path, 6, 4)
    assert path.stat().st_blocks * 512 >= IMAGES.nbytes  # no holes
    np.load(path, mmap_mode="r+")[...] = IMAGES
    drop_images(path, np.array([0, 2, 5]))
    np.testing.assert_array_equal(np.load(path), IMAGES[[0, 2, 5]])
    assert list(tmp_path.iterdir()) == [path]
    drop_images(path, np.array([], np.int64))
    assert np.load(path).shape == (0, 4, 4, 3)


def test_a_file_name_that_is_not_utf8_is_told_and_kept(tmp_path, cache) -> None:
    good, bad = tmp_path / "a.png", os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png")
    Image.fromarray(IMAGES[0]).save(good)
    Path(bad).write_bytes(b"nothing")
    listing = Listing([str(good), bad], np.arange(2, dtype=np.int32), np.zeros(2, np.int8))
    for _ in range(2):  # from the cache as well
        with pytest.warns(UserWarning, match=r"1 of 2 images cannot be read .*\\udcff.png"):
            stored = load_or_decode(KEY, lambda: listing, Decoding(4, 0.5))
        np.testing.assert_array_equal(stored.images, IMAGES[:1])


ON_A_SMALL_DISK = """
import sys, warnings
import numpy as np
from fedgrain.cli import main
from fedgrain.images.decode import Decoding, Listing, load_or_decode

warnings.simplefilter("ignore")
paths = sys.argv[2:]
listing = Listing(paths, np.arange(len(paths), dtype=np.int32), np.zeros(len(paths), np.int8))
try:
    stored = load_or_decode({"dataset": "t"}, lambda: listing, Decoding(int(sys.argv[1]), 0.9))
    print(len(stored.images), int(stored.images[0, 0, 0, 0]))
except ValueError as error:
    print(type(error).__name__, error)
"""


def on_a_small_disk(tmp_path: Path, kilobytes: int, size: int) -> str:
    """Decode a good and a bad image in a process with a small disk of its own for the cache."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a disk")
    Image.new("RGB", (8, 8), (7, 7, 7)).save(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"nothing")
    place = tmp_path / "disk"
    place.mkdir()
    script = f"mount -t tmpfs -o size={kilobytes}k none '{place}' && exec \"$@\""
    command = [sys.executable, "-c", ON_A_SMALL_DISK, str(size)]
    images = [str(tmp_path / name) for name in ("good.png", "bad.png")]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *command, *images],
        capture_output=True, text=True, env={**os.environ, "FEDGRAIN_CACHE": str(place)},
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def test_an_unreadable_image_on_a_nearly_full_disk(tmp_path) -> None:
    """Two images of 3 MB fit, and a second copy of the one that is left does not."""
    assert on_a_small_disk(tmp_path, 6400, 1000) == "1 7\n"


def test_a_full_disk_is_one_sentence(tmp_path) -> None:
    told = on_a_small_disk(tmp_path, 5000, 1000)
    assert told.startswith("DataError ") and "FEDGRAIN_CACHE" in told


def test_a_disk_that_fills_up_meanwhile_is_one_sentence(cache, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module, "allocate", full)
    listing = Listing(["x.png"], np.zeros(1, np.int32), np.zeros(1, np.int8))
    with pytest.raises(ValueError, match=r"no space for the decoded images; free some, or point"):
        load_or_decode(KEY, lambda: listing, Decoding(4))
    assert not [path for path in (cache / "arrays").iterdir() if path.is_dir()]


KILLED = """
import sys, time
from fedgrain.images.cache import load_or_build

def build(folder):
    (folder / "images.npy").write_bytes(b"half")
    print("building", flush=True)
    time.sleep(60)

load_or_build({"dataset": sys.argv[1]}, build)
"""


def building(name: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, name], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "building\n"
    return process


def test_what_killed_builds_left_is_removed_and_what_lives_is_not(cache) -> None:
    processes = {name: building(name) for name in ("dead", "alive", "test")}
    try:
        for name in ("dead", "test"):
            processes[name].send_signal(signal.SIGKILL)
            processes[name].wait()
        stranger = cache / "arrays" / ".notes.abcdefgh"
        stranger.mkdir()
        load_or_build(KEY, build)
        left = sorted(path.name for path in (cache / "arrays").glob(".*.????????"))
        assert len(left) == 2 and left[0].startswith(".alive-") and left[1] == stranger.name
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


def test_a_kill_right_after_an_entry_took_its_place_leaves_nothing(entry) -> None:
    left = entry.with_name(f".{entry.name}.abcdefgh")
    (left / "damaged").mkdir(parents=True)
    np.testing.assert_array_equal(load_or_build(KEY, never).images, IMAGES)
    assert not left.exists()


def test_a_lock_is_not_written_through_a_link(tmp_path, cache) -> None:
    load_or_build(KEY, build)
    (lock,) = (cache / "arrays").glob(".*.lock")
    target = tmp_path / "precious"
    target.write_text("content")
    lock.unlink()
    lock.symlink_to(target)
    shutil.rmtree(entry_in(cache))
    with pytest.raises(ValueError, match="a link or a device"):
        load_or_build(KEY, build)
    assert target.read_text() == "content"

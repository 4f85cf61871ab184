import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedgrain.errors import DataError
from fedgrain.images.cache import load_or_build
from fedgrain.images.decode import Decoding, Listing, decode_files, decode_image, load_or_decode

GENERATOR = np.random.default_rng(0)
PHOTO = GENERATOR.integers(0, 256, (12, 12, 3), dtype=np.uint8)


def saved(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)
    return path


def test_pixels_of_the_right_size_are_left_alone(tmp_path):
    path = saved(tmp_path / "a.png", Image.fromarray(PHOTO))
    np.testing.assert_array_equal(decode_image(path, 12), PHOTO)


def test_greyscale_becomes_rgb(tmp_path):
    path = saved(tmp_path / "a.jpg", Image.fromarray(PHOTO[..., 0]), quality=100)
    decoded = decode_image(path, 12)
    assert decoded.shape == (12, 12, 3)
    assert (decoded == decoded[..., :1]).all()
    assert np.abs(decoded[..., 0].astype(int) - PHOTO[..., 0]).max() < 10


def test_cmyk_and_palette_become_rgb(tmp_path):
    red = Image.new("RGB", (6, 6), (255, 0, 0))
    for name, mode in (("a.jpg", "CMYK"), ("a.gif", "P"), ("b.png", "P")):
        decoded = decode_image(saved(tmp_path / name, red.convert(mode)), 6)
        assert np.abs(decoded.astype(int) - [255, 0, 0]).max() < 12, name


def test_what_is_transparent_shows_white(tmp_path):
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[:, 2:] = (10, 20, 30, 255)  # the left half is transparent black
    expected = np.full((4, 4, 3), 255, np.uint8)
    expected[:, 2:] = (10, 20, 30)
    path = saved(tmp_path / "a.png", Image.fromarray(pixels))
    np.testing.assert_array_equal(decode_image(path, 4), expected)
    palette = Image.fromarray(pixels[..., 0] // 10).convert("P")
    palette.putpalette([9, 9, 9, 10, 20, 30])
    path = saved(tmp_path / "b.png", palette, transparency=0)
    np.testing.assert_array_equal(decode_image(path, 4), expected)


def test_16_bit_grey_keeps_its_upper_bits(tmp_path):
    deep = np.array([[0, 255, 256], [32768, 65535, 511], [1, 2, 3]], np.uint16)
    decoded = decode_image(saved(tmp_path / "a.png", Image.fromarray(deep)), 3)
    np.testing.assert_array_equal(decoded[..., 0], deep >> 8)


def test_one_bit_images(tmp_path):
    bits = Image.fromarray(np.eye(5, dtype=np.bool_))
    decoded = decode_image(saved(tmp_path / "a.png", bits), 5)
    np.testing.assert_array_equal(decoded[..., 2], np.eye(5) * 255)


ORIENTATIONS = {  # what the EXIF standard says must be done to see the picture upright
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, 1),
}


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.tiff", "a.jpg"])
def test_exif_orientation_is_applied_in_every_format(tmp_path, name):
    for orientation, turned in ORIENTATIONS.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        options = {"lossless": True} if name == "a.webp" else {"quality": 100, "subsampling": 0}
        path = saved(tmp_path / name, Image.fromarray(PHOTO), exif=exif, **options)
        difference = np.abs(decode_image(path, 12).astype(int) - turned(PHOTO))
        assert difference.max() <= (6 if name == "a.jpg" else 0), orientation


def test_fractions_are_read_by_their_range(tmp_path):
    whole = np.array([[0, 51], [102, 255]], np.float32)
    for values in (whole, whole / 255):
        decoded = decode_image(saved(tmp_path / "a.tif", Image.fromarray(values)), 2)
        np.testing.assert_array_equal(decoded[..., 1], whole)
    for values in (whole * 257, whole - 1, whole * np.nan):
        path = saved(tmp_path / "a.tif", Image.fromarray(values))
        with pytest.raises(DataError, match="must lie between 0 and 1"):
            decode_image(path, 2)


def test_a_transparent_level_of_16_bit_grey_shows_white(tmp_path):
    deep = np.array([[256, 512], [512, 65535]], np.uint16)
    path = saved(tmp_path / "a.png", Image.fromarray(deep), transparency=512)
    np.testing.assert_array_equal(decode_image(path, 2)[..., 0], [[1, 255], [255, 255]])


def test_the_centre_is_cropped(tmp_path):
    wide = np.zeros((8, 20, 3), np.uint8)
    wide[:, 6:14] = PHOTO[:8, :8]
    np.testing.assert_array_equal(
        decode_image(saved(tmp_path / "a.png", Image.fromarray(wide)), 8), PHOTO[:8, :8]
    )
    high = np.ascontiguousarray(wide.swapaxes(0, 1))
    np.testing.assert_array_equal(
        decode_image(saved(tmp_path / "b.png", Image.fromarray(high)), 8),
        PHOTO[:8, :8].swapaxes(0, 1),
    )


def test_resizing_then_cropping_is_what_comes_out(tmp_path):
    """One step from the cropped box equals the two steps but for the rim of the box."""
    smooth = np.linspace(0, 255, 60 * 100 * 3).reshape(60, 100, 3).astype(np.uint8)
    path = saved(tmp_path / "a.png", Image.fromarray(smooth))
    two_steps = Image.fromarray(smooth).resize((50, 30), Image.Resampling.BILINEAR)
    expected = np.asarray(two_steps.crop((10, 0, 40, 30))).astype(int)
    found = decode_image(path, 30).astype(int)
    assert np.abs(found - expected)[:, 1:-1].max() <= 1
    assert np.abs(found - expected).max() <= 3


@pytest.mark.parametrize("side", [10_000, 14_000])  # Pillow itself warns of one, refuses the other
def test_a_picture_of_too_many_pixels_is_not_decoded(tmp_path, side):
    path = saved(tmp_path / "a.png", Image.new("1", (side, side)))
    assert path.stat().st_size < 100_000
    target = tmp_path / "target.npy"
    np.save(target, np.zeros((1, 8, 8, 3), np.uint8))
    failures = decode_files([str(path)], target, Decoding(8))
    assert "decompression bomb" in failures[0]


def files(folder: Path, count: int) -> list[str]:
    pixels = GENERATOR.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    return [str(saved(folder / f"{i}.png", Image.fromarray(p))) for i, p in enumerate(pixels)]


def test_processes_give_the_same_bits_as_one(tmp_path):
    paths = files(tmp_path, 1100)
    Path(paths[1050]).write_bytes(b"nothing")
    results = []
    for workers in (1, 2):
        target = tmp_path / f"{workers}.npy"
        np.save(target, np.zeros((1100, 5, 5, 3), np.uint8))
        failures = decode_files(paths, target, Decoding(5, workers=workers))
        assert list(failures) == [1050] and "not an image" in failures[1050]
        results.append(np.load(target))
    np.testing.assert_array_equal(*results)
    np.testing.assert_array_equal(results[0][7], decode_image(paths[7], 5))


def listing(paths: list[str]) -> Listing:
    numbers = np.arange(len(paths), dtype=np.int32)
    return Listing(paths, numbers, np.zeros(len(paths), np.int8))


def test_unreadable_images_are_skipped_listed_and_warned_of(tmp_path, cache):
    paths = files(tmp_path, 10)
    Path(paths[3]).write_bytes(Path(paths[3]).read_bytes()[:60])
    key = {"dataset": "test"}
    for _ in range(2):  # from the cache as well
        with pytest.warns(UserWarning, match=r"1 of 10 images cannot be read .*3\.png"):
            stored = load_or_decode(key, lambda: listing(paths), Decoding(8, 0.1))
        assert stored.labels.tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        assert stored.images.shape == (9, 8, 8, 3)
        np.testing.assert_array_equal(stored.images[3], decode_image(paths[4], 8))
        assert len(stored.unreadable) == 1 and "3.png (" in stored.unreadable[0]


def test_beyond_the_share_it_is_an_error_and_nothing_is_kept(tmp_path, cache):
    paths = files(tmp_path, 10)
    for bad in (2, 5):
        Path(paths[bad]).write_bytes(b"")
    with pytest.raises(DataError, match=r"2 of 10 .* share of 0\.1: .*2\.png.*5\.png"):
        load_or_decode({"dataset": "test"}, lambda: listing(paths), Decoding(8, 0.1))
    assert not [path for path in (cache / "arrays").iterdir() if path.is_dir()]


def test_a_stricter_share_counts_for_the_cache_too(tmp_path, cache):
    paths = files(tmp_path, 4)
    Path(paths[0]).write_bytes(b"")
    with pytest.warns(UserWarning):
        load_or_decode({"dataset": "test"}, lambda: listing(paths), Decoding(8, 0.5))
    with pytest.raises(DataError, match="1 of 4"):
        load_or_decode({"dataset": "test"}, lambda: listing(paths), Decoding(8, 0))


def test_the_second_load_maps_the_array_and_decodes_nothing(tmp_path, cache):
    paths = files(tmp_path, 3)
    first = load_or_decode({"dataset": "test"}, lambda: listing(paths), Decoding(8))
    second = load_or_decode({"dataset": "test"}, lambda: pytest.fail("listed again"), Decoding(8))
    assert isinstance(second.images, np.memmap) and not second.images.flags.writeable
    np.testing.assert_array_equal(first.images, second.images)
    with pytest.raises(AssertionError, match="other size"):
        load_or_decode({"dataset": "test"}, raising(AssertionError("other size")), Decoding(9))


def raising(error: Exception):
    def raise_it(*_: object):
        raise error

    return raise_it


def test_an_interrupted_build_leaves_nothing(cache):
    def interrupted(folder: Path):
        np.save(folder / "images.npy", np.zeros((2, 2)))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_or_build({"dataset": "test"}, interrupted)
    assert [path.suffix for path in (cache / "arrays").iterdir()] == [".lock"]


def test_nonsense_settings_are_refused():
    with pytest.raises(DataError, match="size must lie between 1 and 4096, not 0"):
        Decoding(0)
    with pytest.raises(DataError, match="share from 0 to 1, not 2"):
        Decoding(8, 2)


def test_too_little_disk_is_said_before_decoding(tmp_path, cache):
    many = Listing(["x"] * 10**6, np.zeros(1, np.int32), np.zeros(1, np.int8))
    with pytest.raises(DataError, match=r"needs 50331\.6 GB .* FEDGRAIN_CACHE"):
        load_or_decode({"dataset": "test"}, lambda: many, Decoding(4096))


def fake_ghostscript(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a ``gs`` first in PATH that leaves a mark; return the mark."""
    mark, program = folder / "started", folder / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # Pillow looks for it once
    return mark


def test_an_image_of_another_format_starts_no_program(tmp_path, monkeypatch):
    mark = fake_ghostscript(tmp_path, monkeypatch)
    Image.fromarray(PHOTO).save(tmp_path / "photo.eps")
    path = (tmp_path / "photo.eps").rename(tmp_path / "photo.png")
    with pytest.raises(DataError, match="not an image of the formats PNG, JPEG"):
        decode_image(path, 12)
    assert not mark.exists()


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "bmp", "tif", "gif"])
def test_the_formats_that_are_named_are_read(tmp_path, ending):
    red = Image.new("RGB", (6, 6), (255, 0, 0))
    decoded = decode_image(saved(tmp_path / f"a.{ending}", red), 6)
    assert np.abs(decoded.astype(int) - [255, 0, 0]).max() < 12


def test_pictures_of_two_views_are_read_as_jpeg(tmp_path):
    red = Image.new("RGB", (6, 6), (255, 0, 0))
    path = saved(tmp_path / "a.mpo", red, save_all=True, append_images=[red])
    with Image.open(path) as image:
        assert image.format == "MPO"
    assert decode_image(path, 6).shape == (6, 6, 3)


def test_pipes_devices_and_folders_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")  # opened for reading it would wait for a writer
    with pytest.raises(DataError, match="a named pipe, not a plain file"):
        decode_image(tmp_path / "pipe.png", 8)
    with pytest.raises(DataError, match="a device, not a plain file"):
        decode_image("/dev/zero", 8)
    with pytest.raises(DataError, match="a folder, not a plain file"):
        decode_image(tmp_path, 8)

"""Copies of a picture are found, whatever was done to the file; different pictures are not."""

import io

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from fedgrain.folders.near_duplicates import _candidates, _shrunk, groups_of, near_duplicates
from fedgrain.images.decode import upright_square
from own_parts import few_glyphs


def photo(seed: int, size: tuple[int, int] = (96, 72)) -> Image.Image:
    """A smooth picture of its own, as photographs are."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)


def as_jpeg(image: Image.Image) -> Image.Image:
    into = io.BytesIO()
    image.save(into, format="JPEG", quality=60)
    return Image.open(into)


CHANGES = {
    "smaller": lambda image: image.resize((48, 36)),
    "as JPEG": as_jpeg,
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.04),
    "a spot": lambda image: image.paste((0, 0, 0), (40, 30, 44, 34)) or image,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_is_found_and_nothing_else(change):
    pictures = [photo(seed) for seed in range(40)]
    pictures.append(CHANGES[change](photo(17)))
    images = np.stack([np.asarray(upright_square(picture, 64)) for picture in pictures])
    assert near_duplicates(images).tolist() == [[17, 40]]


def test_pictures_of_one_kind_are_not_copies():
    assert len(near_duplicates(few_glyphs().images)) == 0


def test_candidates_against_every_pair():
    """Up to three bits apart every pair is found; more only where a part of 16 bits agrees."""
    random = np.random.default_rng(0)
    base = random.integers(0, 2**63, 60, dtype=np.uint64)
    flips = [np.uint64(sum(1 << b for b in random.choice(64, 3, replace=False))) for _ in base]
    hashes = np.concatenate([base, base ^ np.array(flips), base[:5]])
    found = set(map(tuple, _candidates(hashes).tolist()))
    count = len(hashes)
    distance = {
        (a, b): int(hashes[a] ^ hashes[b]).bit_count()
        for a in range(count)
        for b in range(a + 1, count)
    }
    assert {pair for pair, bits in distance.items() if bits <= 3} <= found
    assert all(distance[pair] <= 8 for pair in found)


def test_a_picture_that_occurs_very_often_is_one_group():
    images = np.zeros((300, 8, 8, 3), np.uint8)
    images[::100] = np.random.default_rng(1).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    groups = groups_of(near_duplicates(images), len(images))
    assert [len(group) for group in groups] == [297]
    assert near_duplicates(images[:0]).shape == (0, 2)


def test_shrinking_takes_the_mean_of_each_part():
    block = np.random.default_rng(2).random((2, 12, 18, 1)).astype(np.float32)
    expected = block.reshape(2, 4, 3, 9, 2, 1).mean(axis=(2, 4))
    np.testing.assert_allclose(_shrunk(block, 4, 9), expected, atol=1e-5)
    whole = _shrunk(block, 5, 7)  # parts of pixels
    np.testing.assert_allclose(whole.mean(axis=(1, 2)), block.mean(axis=(1, 2)), atol=1e-5)

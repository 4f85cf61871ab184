"""Images that show nearly the same picture: the same photograph saved again, resized or retouched.

Each image has a hash of 64 bits (dHash: is a pixel of the shrunken image brighter than the one to
its right?). Images whose hashes agree in one of four parts of 16 bits, and differ in few bits, are
candidates; so not every pair is compared, and none that differs in at most three bits is missed.
Candidates whose shrunken colours also agree are pairs; hashes alone would take all pictures of one
thing on a plain ground for one. Most pairs in a sample of those found on
CIFAR-100 are, by eye, the same photograph; not all are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_BITS = 8  # most bits in which the hashes of a pair differ
_COLOUR = 10.0  # most mean difference of shrunken colours, of 255
_SIDE = 16  # of the image whose colours are compared
_BLOCK = 1024  # images, or hashes, worked on at once
_OF_ONE_HASH = 50  # images with one hash that are all compared
_ONES = np.array([number.bit_count() for number in range(256)], np.uint8)

Pairs = NDArray[np.int64]  # [pairs, 2], the smaller number first


def near_duplicates(images: NDArray[np.uint8]) -> Pairs:
    """Return the pairs of images [images, height, width, channels] with nearly the same picture.

    A picture that occurs very often gives a chain of pairs, not all of them.
    """
    if min(images.shape[1:3], default=0) < 1 or not len(images):
        return np.empty((0, 2), np.int64)
    hashes, small = _fingerprints(images)
    pairs = _candidates(hashes)
    difference = np.abs(small[pairs[:, 0]].astype(np.int16) - small[pairs[:, 1]])
    near: NDArray[np.bool_] = difference.mean(axis=(1, 2, 3)) <= _COLOUR
    return np.asarray(pairs[near], np.int64)


def groups_of(pairs: Pairs, count: int) -> list[list[int]]:
    """Return the images that pairs connect, as groups of two or more, each ascending."""
    first = np.arange(count)
    for one, other in pairs.tolist():  # union of sets; the smallest number stands for its group
        a, b = _top(first, one), _top(first, other)
        first[max(a, b)] = min(a, b)
    found: dict[int, list[int]] = {}
    for number in np.unique(pairs).tolist():
        found.setdefault(_top(first, number), []).append(number)
    return [found[number] for number in sorted(found)]


def _top(first: NDArray[np.int64], number: int) -> int:
    while first[number] != number:
        first[number] = first[first[number]]
        number = int(first[number])
    return number


def _fingerprints(images: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Return the hash and the shrunken image of each, a block at a time."""
    hashes = np.empty(len(images), np.uint64)
    small = np.empty((len(images), _SIDE, _SIDE, images.shape[3]), np.uint8)
    for start in range(0, len(images), _BLOCK):
        block = np.asarray(images[start : start + _BLOCK], np.float32)
        grey = _shrunk(block.mean(axis=3, keepdims=True), 8, 9)[..., 0]
        bits = grey[:, :, :-1] > grey[:, :, 1:]  # [images, 8, 8]
        packed = np.packbits(bits.reshape(len(block), 64), axis=1)
        hashes[start : start + _BLOCK] = packed.view(np.uint64)[:, 0]
        small[start : start + _BLOCK] = _shrunk(block, _SIDE, _SIDE)
    return hashes, small


def _shrunk(block: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """Return images [images, height, width, channels] of another size: the mean of each part."""
    for axis, size in ((1, height), (2, width)):
        length = block.shape[axis]
        edges = np.arange(size + 1) * length / size
        low = np.floor(edges).astype(np.int64)
        # the integral up to each edge, linear within a pixel
        total = np.cumsum(block, axis=axis, dtype=np.float64)
        total = np.concatenate([np.zeros_like(total.take([0], axis)), total], axis)
        part = (edges - low).reshape([-1 if place == axis else 1 for place in range(4)])
        upper = np.minimum(low + 1, length)
        at_edges = total.take(low, axis) * (1 - part) + total.take(upper, axis) * part
        block = (np.diff(at_edges, axis=axis) * (size / length)).astype(np.float32)
    return block


def _candidates(hashes: NDArray[np.uint64]) -> Pairs:
    """Return pairs of images whose hashes are near; of very many with one hash, a chain."""
    order = np.argsort(hashes, kind="stable")
    same = hashes[order][1:] == hashes[order][:-1]
    chain = np.stack([order[:-1][same], order[1:][same]], axis=1)
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    place = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    compared = order[place < _OF_ONE_HASH]
    near = [compared[pair] for pair in _near(hashes[compared])]
    both = np.concatenate([chain, *near])
    return np.unique(np.sort(both.astype(np.int64), axis=1), axis=0)


def _near(values: NDArray[np.uint64]) -> Iterator[Pairs]:
    """Yield pairs of places in ``values`` that differ in at most a few bits."""
    for part in range(4):
        keys = (values >> np.uint64(16 * part)) & np.uint64(0xFFFF)
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(keys[order][1:] != keys[order][:-1]) + 1
        for members in np.split(order, starts):
            for start in range(0, len(members) if len(members) > 1 else 0, _BLOCK):
                rows = members[start : start + _BLOCK]
                far = _ones(values[rows][:, None] ^ values[members][None, :])
                one, other = np.nonzero((far <= _BITS) & (rows[:, None] < members[None, :]))
                yield np.stack([rows[one], members[other]], axis=1)


def _ones(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how many bits are set."""
    parts = values[..., None].view(np.uint8)
    return np.asarray(_ONES[parts].sum(axis=-1, dtype=np.int64))

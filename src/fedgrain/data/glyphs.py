"""Glyphs: the embedded data set, drawn from a taxonomy by the paper's own model of features.

Equations 1 and 2 of the paper: what a class looks like is what its parent looks like plus a feature
of its own, which all its descendants share. So every node of a real WordNet tree sets one visual
attribute, chosen by its depth, and siblings differ in that attribute alone:

=====  ===============================================================
depth  attribute
=====  ===============================================================
1      brightness of the background
2      hue of the background
3      shape of the figure
4      colour of the figure (white where no node sets one)
5      texture of the figure (plain where no node sets one)
6      mark at its centre (none where no node sets one)
=====  ===============================================================

Everything else varies from image to image: position, scale, slant, colours, contrast, a bar across
the image, and noise on every pixel. All arithmetic is on integers and the random numbers are raw
bits of the generator, so the content is the same on every machine; a test holds its hash.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import DataError
from fedgrain.images.images import LabelledImages, Normalisation
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy.tree import Taxonomy
from fedgrain.taxonomy.wordnet import full_taxonomy

_Integers = NDArray[np.int32]
Mask = NDArray[np.bool_]
Figure = Callable[[_Integers, _Integers], Mask]  # from coordinates in the figure's own frame

_SIZE = 32
NORMALISATION = Normalisation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
CLASSES = (
    "n01562265",  # robin
    "n01608432",  # kite
    "n01614925",  # bald eagle
    "n01622779",  # great grey owl
    "n02088364",  # beagle
    "n02114100",  # wolf
    "n02119477",  # red fox
    "n02121808",  # domestic cat
    "n02129165",  # lion
    "n02132136",  # brown bear
    "n02134084",  # ice bear
    "n11939491",  # daisy
    "n11978233",  # sunflower
    "n11608250",  # pine
    "n12268246",  # oak
    "n03467517",  # guitar
    "n04536866",  # violin
    "n03372029",  # flute
    "n04487394",  # trombone
    "n02951358",  # canoe
    "n04128499",  # sailboat
    "n02834778",  # bicycle
    "n03345487",  # fire engine
    "n07739125",  # apple
    "n07745940",  # strawberry
    "n07747607",  # orange
    "n07749582",  # lemon
    "n07697313",  # cheeseburger
    "n07873807",  # pizza
    "n07614500",  # ice cream
    "n07693725",  # bagel
    "n07695742",  # pretzel
)

_BRIGHTNESS = np.array([90, 140], np.int32)
_HUES = np.array(  # added to the brightness of the background
    [[-20, 20, -20], [-20, -15, 25], [28, -15, -18], [20, 12, -30], [-24, 12, 20]], np.int32
)
COLOURS = np.array(
    [[215, 60, 50], [60, 95, 225], [235, 205, 60], [70, 190, 80], [205, 80, 205]], np.int32
)
_WHITE = np.array([225, 225, 225], np.int32)
ABSENT = -1
_LIGHT, _TINT, _NOISE = 45, 45, 50  # how far brightness, colours and pixels stray


@cache
def glyph_taxonomy() -> Taxonomy:
    """Return the WordNet tree over the 32 classes: 6 levels below the root."""
    return full_taxonomy(CLASSES)


@lru_cache(maxsize=2)
def load_glyphs(*, train: int = 5_000, test: int = 1_000, seed: int = 0) -> LabelledImages:
    """Draw the data set: equally many images of every class (numbers differ by at most one).

    It is drawn once per process, for the many runs of a study, so the arrays are read-only.
    """
    if train < 1 or test < 0:
        raise DataError(f"glyphs needs at least one training image, not {train} (and {test} test)")
    if seed < 0:
        raise DataError(f"glyphs needs a seed of at least 0, not {seed}")
    taxonomy = glyph_taxonomy()
    leaves = taxonomy.leaves
    order = [
        np.argsort(_raw(seed, "glyph order", split, count), kind="stable")
        for split, count in enumerate((train, test))
    ]
    labels = np.concatenate([leaves[numbers % len(leaves)] for numbers in order])
    images = np.empty((train + test, _SIZE, _SIZE, 3), np.uint8)
    attributes = node_attributes(taxonomy)
    for start in range(0, len(images), 250):
        block = slice(start, start + 250)
        images[block] = draw(attributes[labels[block]], seed, start)
    images.flags.writeable = labels.flags.writeable = False
    return LabelledImages(
        name="glyphs",
        images=images,
        labels=labels,
        taxonomy=taxonomy,
        splits=np.repeat(np.array([0, 1], np.int8), [train, test]),
        split_names=("train", "test"),
        normalisation=NORMALISATION,
    )


def node_attributes(taxonomy: Taxonomy) -> _Integers:
    """Return the attribute values [nodes, depths] of every node: its own and all its ancestors'.

    The nodes of one depth take the values of that depth's attribute in turn, so siblings always
    differ and cousins mostly do.
    """
    if taxonomy.depth.max() > len(VALUES) or np.any(taxonomy.child_counts > min(VALUES[1:])):
        raise DataError("the glyph attributes do not suffice for this taxonomy")
    attributes = np.full((len(taxonomy), len(VALUES)), ABSENT, np.int32)
    for level, nodes in enumerate(taxonomy.levels[1:]):
        attributes[nodes] = attributes[taxonomy.parents[nodes]]
        attributes[nodes, level] = np.arange(len(nodes)) % VALUES[level]
    return attributes


def draw(attributes: _Integers, seed: int, first: int) -> NDArray[np.uint8]:
    """Draw images [images, 32, 32, 3] for rows of attributes; ``first`` numbers the stream."""
    count = len(attributes)
    brightness, hue, shape, colour, texture, mark = attributes.T
    vary = Variation(seed, first, count)
    u, v = _figure_coordinates(vary)
    figure = _drawn(shape, _SHAPES, u, v)
    layer = figure.astype(np.uint8)  # 0 background, 1 paint, 2 shade, 3 glow, 4 bar
    phase = vary.between(0, 359)[:, None, None]
    layer[figure & _drawn(texture, _TEXTURES, u + phase, v + phase)] = 2
    layer[figure & _drawn(mark, _MARKS, u, v)] = 3
    layer[_bar_mask(vary)] = 4
    inks = _inks(brightness, hue, colour, vary)  # [images, layers, 3]
    cover = np.stack([_fine_to_coarse(layer == ink) for ink in range(5)], axis=-1)
    canvas = np.matmul(cover, inks) // 4  # [images, 32 * 32, 3]
    canvas = canvas.reshape(count, _SIZE, _SIZE, 3) + vary.noise(count, _NOISE)
    return np.asarray(np.clip(canvas, 0, 255), np.uint8)


def _inks(brightness: _Integers, hue: _Integers, colour: _Integers, vary: Variation) -> _Integers:
    """Colours of background, paint, shade, glow and bar [images, 5, 3]."""
    light = _BRIGHTNESS[brightness] + vary.between(-_LIGHT, _LIGHT)
    background = light[:, None] + _HUES[hue] + vary.between(-_TINT, _TINT, 3)
    paint = np.where((colour == ABSENT)[:, None], _WHITE, COLOURS[colour]) + vary.between(
        -_TINT, _TINT, 3
    )
    contrast = vary.between(110, 256)[:, None]  # of 256: how much the figure stands out
    paint = background + (paint - background) * contrast // 256
    shade = background + (paint - background) * 40 // 256
    glow = paint + (255 - paint) * 210 // 256
    return np.stack([background, paint, shade, glow, vary.between(40, 215, 3)], axis=1)


def _fine_to_coarse(mask: Mask) -> _Integers:
    """How many of the four fine points of each pixel are covered [images, 32 * 32]."""
    points = mask.view(np.uint8)
    rows = points[:, ::2] + points[:, 1::2]
    covered = rows[:, :, ::2] + rows[:, :, 1::2]
    return covered.reshape(len(mask), -1).astype(np.int32)


class Variation:
    """Random integers for a block of images, from raw bits: the same in every version of NumPy."""

    def __init__(self, seed: int, first: int, count: int) -> None:
        self._seed, self._first, self._count, self._purpose = seed, first, count, 0

    def between(self, low: int, high: int, width: int = 0) -> _Integers:
        """Draw integers in [low, high]: one per image, or ``width`` per image."""
        self._purpose += 1
        raw = _raw(
            self._seed, "glyph variation", self._first, self._count * max(width, 1), self._purpose
        )
        drawn = low + ((raw >> np.uint64(32)) % np.uint64(high - low + 1)).astype(np.int32)
        return drawn.reshape(self._count, width) if width else drawn

    def noise(self, count: int, spread: int) -> _Integers:
        """Draw noise per pixel: the sum of two uniform bytes, scaled to [-spread, spread]."""
        raw = _raw(self._seed, "glyph noise", self._first, count * _SIZE * _SIZE * 3 // 4)
        pairs = raw.astype("<u8").view(np.uint8).reshape(count, _SIZE, _SIZE, 3, 2)
        return np.asarray((pairs.sum(axis=-1, dtype=np.int32) - 255) * spread // 255, np.int32)


def _raw(seed: int, purpose: str, number: int, count: int, *more: int) -> NDArray[np.uint64]:
    generator = numpy_generator(seed, purpose, number, *more)
    raw: NDArray[np.uint64] = generator.bit_generator.random_raw(count)
    return raw


def _grid() -> tuple[_Integers, _Integers]:
    """Coordinates x and y of a grid twice as fine as the image, -63 to 63; a pixel is 4 wide."""
    line = 2 * np.arange(2 * _SIZE, dtype=np.int32) - (2 * _SIZE - 1)
    return line[None, None, :], line[None, :, None]


def _figure_coordinates(vary: Variation) -> tuple[_Integers, _Integers]:
    """Coordinates in the figure's own frame [images, 64, 64], its radius 1024."""
    x, y = _grid()
    x = x - vary.between(-16, 16)[:, None, None]
    y = y - vary.between(-16, 16)[:, None, None]
    angles = [math.radians(degrees) for degrees in range(-14, 15)]
    turn = vary.between(0, len(angles) - 1)
    cosine = np.array([round(1024 * math.cos(angle)) for angle in angles], np.int32)[turn]
    sine = np.array([round(1024 * math.sin(angle)) for angle in angles], np.int32)[turn]
    radius = vary.between(26, 46)[:, None, None]
    c, s = cosine[:, None, None], sine[:, None, None]
    return (c * x + s * y) // radius, (c * y - s * x) // radius


def _disc(u: _Integers, v: _Integers, radius: int) -> Mask:
    return np.asarray(u * u + v * v < radius**2)


def _box(u: _Integers, v: _Integers, across: int, down: int) -> Mask:
    return np.asarray((np.abs(u) < across) & (np.abs(v) < down))


_SHAPES: tuple[Figure, ...] = (
    lambda u, v: _disc(u, v, 1024),
    lambda u, v: _box(u, v, 900, 900),
    lambda u, v: (12 * np.abs(u) < 7 * (v + 1050)) & (v < 850),  # triangle
    lambda u, v: np.abs(u) + np.abs(v) < 1220,  # diamond
    lambda u, v: _box(u, v, 1050, 400) | _box(u, v, 400, 1050),  # cross
    lambda u, v: _disc(u, v - 500, 1100) & (np.abs(u) < 1050) & (v < 500),  # dome
)
_TEXTURES: tuple[Figure, ...] = (
    lambda u, v: v % 500 < 210,  # lying stripes
    lambda u, v: u % 500 < 210,  # standing stripes
    lambda u, v: (u + v) % 700 < 300,  # slanting stripes
    lambda u, v: (u % 640 < 320) ^ (v % 640 < 320),  # checks
)
_MARKS: tuple[Figure, ...] = (
    lambda u, v: _disc(u, v, 400),
    lambda u, v: _box(u, v, 620, 190),
    lambda u, v: _box(u, v, 190, 620),
)
VALUES = (len(_BRIGHTNESS), len(_HUES), len(_SHAPES), len(COLOURS), len(_TEXTURES), len(_MARKS))


def _drawn(value: _Integers, options: tuple[Figure, ...], u: _Integers, v: _Integers) -> Mask:
    """Draw each image's own option; nothing where the attribute is absent."""
    mask = np.zeros(u.shape, np.bool_)
    for number, option in enumerate(options):
        chosen = np.flatnonzero(value == number)
        mask[chosen] = option(u[chosen], v[chosen])
    return mask


def _bar_mask(vary: Variation) -> Mask:
    """Lay a bar across the image, lying or standing, that hides part of everything."""
    x, y = _grid()
    standing = vary.between(0, 1)[:, None, None] == 1
    place = vary.between(-60, 60)[:, None, None]
    return np.asarray(np.abs(np.where(standing, x, y) - place) < 5, np.bool_)

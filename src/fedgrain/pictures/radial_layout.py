"""The layout of a radial tree: names do not overlap, whatever the number of leaves.

Leaves share the circle evenly in the tree's order. Beyond a leaf its slot of the circle is empty,
so its name goes there, as far in as a line of text fits into the slot. The picture grows with the
number of leaves instead of the text shrinking.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy.tree import Taxonomy
from fedgrain.text import shortened

FloatArray = NDArray[np.float64]

_LINE_HEIGHT = 1.25  # of a name, in font sizes
_LETTER_WIDTH = 0.6  # of an average letter, in font sizes
LONGEST_NAME = 28  # letters
_RING_SHAPE = 0.7  # below 1: the first rings, with few nodes, lie closer to the root


class RadialLayout:
    """Places in points from the root; a unit of the picture is a point of paper."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        count = len(taxonomy.leaves)
        self.font_size = 7.0 if count <= 300 else 5.0
        self.names = [shortened(name, LONGEST_NAME) for name in taxonomy.names]
        depths = max(1, int(taxonomy.depth.max()))
        narrowest = count * _LINE_HEIGHT * self.font_size / (2 * np.pi)  # circle that holds names
        outer = max(1.15 * narrowest, 30.0 * depths, 90.0)
        self.ring_radii: FloatArray = outer * (np.arange(depths + 1) / depths) ** _RING_SHAPE
        slot = (np.arange(count) + 0.5) * 2 * np.pi / count
        first, end = taxonomy.leaf_ranges
        self.angle: FloatArray = np.pi / 2 - (slot[first] + slot[end - 1]) / 2  # [nodes]
        self.radius: FloatArray = self.ring_radii[taxonomy.depth]  # [nodes]
        leaf_radius = self.radius[taxonomy.leaves]
        self.name_radius: FloatArray = np.maximum(leaf_radius, narrowest) + 0.8 * self.font_size
        lengths = np.array([len(self.names[leaf]) for leaf in taxonomy.leaves])
        reach = self.name_radius + lengths * _LETTER_WIDTH * self.font_size
        self.size = float(2 * max(reach.max(), outer) + 3 * self.font_size)

    @property
    def places(self) -> FloatArray:
        """Where the nodes go: [nodes, 2]."""
        return on_paper(self.angle, self.radius)

    @property
    def leaf_diameter(self) -> float:
        """Diameter of a leaf's dot: smaller than a line of text."""
        return 0.62 * self.font_size

    @property
    def inner_diameter(self) -> float:
        """Diameter of an inner node's dot: it grows with the picture as long as dots stay apart."""
        inner = self.taxonomy.internal
        by_ring = inner[np.argsort(self.taxonomy.depth[inner], kind="stable")]
        in_one_ring = np.diff(self.taxonomy.depth[by_ring]) == 0
        gaps = (-np.diff(self.angle[by_ring]) * self.radius[by_ring[1:]])[in_one_ring]
        room = max(gaps.min(initial=14.0), 1.2 * self.leaf_diameter)
        return float(min(room, np.clip(self.size / 120, 5.5, 14.0)))

    @property
    def inner_font_size(self) -> float:
        """Font size of inner names: it grows with the picture."""
        return float(np.clip(self.size / 130, 6.0, 15.0))

    @property
    def line_width(self) -> float:
        """Width of an edge: it grows with the picture."""
        return float(np.clip(self.size / 900, 0.7, 1.6))

    def inner_name_places(self) -> dict[int, FloatArray]:
        """Return the middle of each inner node's name where one finds room among dots and names.

        Each name takes the first free place of: above, below, right or left of its dot, nodes near
        the root first; a name without a free place is left out.
        """
        places = self.places
        leaves = self.taxonomy.leaves
        half_dots = np.full((len(places), 2), self.inner_diameter / 2)
        half_dots[leaves] = self.leaf_diameter / 2
        half_dots[0] = self.inner_diameter
        boxes = np.concatenate([places - half_dots, places + half_dots], axis=1)  # x0 y0 x1 y1
        names = self._leaf_name_boxes()
        taken = np.concatenate([boxes, names])
        found: dict[int, FloatArray] = {}
        inner = self.taxonomy.internal
        for node in inner[np.argsort(self.taxonomy.depth[inner], kind="stable")]:
            width = len(self.names[node]) * _LETTER_WIDTH * self.inner_font_size
            half = np.array([width, _LINE_HEIGHT * self.inner_font_size]) / 2
            away = half + half_dots[node]
            for step in ((0, 1), (0, -1), (1, 0), (-1, 0)):
                middle = places[node] + away * step
                box = np.concatenate([middle - half, middle + half])
                if not overlaps(box, taken).any():
                    found[int(node)] = middle
                    taken = np.concatenate([taken, box[None]])
                    break
        return found

    def _leaf_name_boxes(self) -> FloatArray:
        """Boxes around points along each leaf's name: [leaves x points, 4]."""
        half = self.font_size / 2
        boxes = []
        for position, leaf in enumerate(self.taxonomy.leaves):
            letters = np.arange(0, len(self.names[leaf]), 1.5) * _LETTER_WIDTH * self.font_size
            along = on_paper(self.angle[leaf], self.name_radius[position] + letters)
            boxes.append(np.concatenate([along - half, along + half], axis=1))
        return np.concatenate(boxes)


def on_paper(angle: FloatArray | float, radius: FloatArray | float) -> FloatArray:
    """Turn polar into plane coordinates [..., 2]."""
    x, y = np.broadcast_arrays(radius * np.cos(angle), radius * np.sin(angle))
    return np.stack([x, y], axis=-1)


def overlaps(box: FloatArray, others: FloatArray) -> NDArray[np.bool_]:
    """Return which of the other boxes (x0, y0, x1, y1) share some area with the box."""
    apart = (others[:, 2:] <= box[:2]) | (others[:, :2] >= box[2:])
    return np.asarray(~apart.any(axis=1))

"""Contact sheets: per branch of the taxonomy one picture, a row of examples per child."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from fedgrain.files import written_whole
from fedgrain.images.images import LabelledImages
from fedgrain.randomness import numpy_generator
from fedgrain.text import shortened

NAME_WIDTH, GAP, HEADING = 150, 4, 26
_INK, _PAPER, QUIET = (20, 20, 20), (255, 255, 255), (120, 120, 120)


def write_contact_sheets(
    data: LabelledImages, folder: str | Path, *, columns: int = 12, seed: int = 0
) -> list[Path]:
    """Write ``<node number>-<name>.png`` for every branch that has images; return the paths."""
    written = []
    for branch in data.taxonomy.internal:
        below = data.taxonomy.is_ancestor(branch, data.labels) & (data.labels != branch)
        if not below.any():
            continue
        short = re.sub(r"[^A-Za-z0-9]+", "-", data.taxonomy.names[branch]).strip("-")[:40]
        path = Path(folder) / f"{branch:04d}-{short or 'branch'}.png"
        sheet = contact_sheet(data, int(branch), columns=columns, seed=seed)
        with written_whole(path) as aside:
            sheet.save(aside, format="PNG")
        written.append(path)
    return written


def contact_sheet(
    data: LabelledImages, branch: int, *, columns: int = 12, seed: int = 0
) -> Image.Image:
    """Draw one branch: a row per child with examples from everywhere below that child."""
    tree = data.taxonomy
    children = tree.children(branch)
    cell = max(48, min(96, max(data.size) * 2 if max(data.size) < 48 else max(data.size)))
    height = HEADING + len(children) * (cell + GAP) + GAP
    sheet = Image.new("RGB", (NAME_WIDTH + columns * (cell + GAP) + GAP, height), _PAPER)
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(13)
    title = " / ".join(tree.names[node] for node in tree.path(branch))
    pen.text((GAP, 5), shortened(title, 110), fill=_INK, font=font)
    for row, child in enumerate(children):
        top = HEADING + row * (cell + GAP)
        below = np.flatnonzero(tree.is_ancestor(child, data.labels))
        pen.text((GAP, top + cell // 2 - 15), shortened(tree.names[child], 21), _INK, font)
        pen.text((GAP, top + cell // 2 + 2), f"{len(below)} images", QUIET, font)
        chosen = numpy_generator(seed, "contact sheet", int(child)).permutation(below)[:columns]
        for column, number in enumerate(chosen):
            left = NAME_WIDTH + column * (cell + GAP)
            sheet.paste(_thumbnail(data.images[number], cell), (left, top))
    return sheet


def _thumbnail(pixels: NDArray[np.uint8], cell: int) -> Image.Image:
    smaller = max(pixels.shape[:2]) < cell
    resample = Image.Resampling.NEAREST if smaller else Image.Resampling.BILINEAR
    content = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    return (
        Image.fromarray(np.ascontiguousarray(content)).convert("RGB").resize((cell, cell), resample)
    )

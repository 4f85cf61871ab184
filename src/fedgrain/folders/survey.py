"""What the defaults of a run depend on: known from a manifest and a few headers of images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

import numpy as np

from fedgrain.folders.folder import folder_named, read_rows, read_tree
from fedgrain.images.decode import shorter_side

_LOOKED_AT = 200  # images whose size is looked at, spread over the manifest


@dataclass(frozen=True)
class Survey:
    """What is known of a user's folder before its images are decoded."""

    clients: tuple[str, ...]  # named in the manifest's training rows
    side: int | None  # median of the images' shorter sides; None if none of those tried is readable


def survey_folder(
    root: str | Path | None = None,
    *,
    manifest: str | Path | None = None,
    taxonomy: str | Path | None = None,
) -> Survey:
    """Look at a folder without decoding an image; loading it reports its mistakes."""
    folder = folder_named(root, manifest)
    rows, _, _ = read_rows(folder, manifest, read_tree(folder, taxonomy))
    training = [row for row, split in enumerate(rows.splits) if split == "train"]
    named = {rows.clients[row] for row in training} if rows.clients is not None else set()
    spread = np.linspace(0, len(rows.paths), _LOOKED_AT, endpoint=False, dtype=np.int64)
    few = [rows.paths[row] for row in np.unique(spread)] if rows.paths else []
    sides = [side for path in few if (side := shorter_side(path)) is not None]
    return Survey(tuple(sorted(named - {""})), median_low(sides) if sides else None)

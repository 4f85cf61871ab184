"""A manifest of three sites with tiny images: one that names every class, two that name less."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = {"kite": 40, "owl": 100, "cat": 160, "dog": 220}
EDGES = ("animal,bird", "animal,mammal", "bird,kite", "bird,owl", "mammal,cat", "mammal,dog")
SITES = ("museum", "volunteers", "zoo")
ABOVE = {"kite": "bird", "owl": "bird", "cat": "mammal", "dog": "mammal"}


def write_sites(folder: Path, train: int = 8, test: int = 4) -> Path:
    """Write images, taxonomy.csv and images.csv: so many images per site and class.

    The zoo has only birds; volunteers write bird and mammal, also on half of their test images.
    """
    (folder / "images").mkdir(parents=True)
    (folder / "taxonomy.csv").write_text("parent,child\n" + "\n".join(EDGES) + "\n")
    random = np.random.default_rng(7)
    rows = ["path,label,client,split"]
    for site in SITES:
        for name, colour in CLASSES.items():
            if site == "zoo" and ABOVE[name] != "bird":
                continue
            for number in range(train + test):
                pixels = random.integers(colour - 35, colour + 35, (16, 16, 3)).astype(np.uint8)
                path = f"images/{site}-{name}-{number}.png"
                Image.fromarray(pixels).save(folder / path)
                split = "train" if number < train else "test"
                coarse = site == "volunteers" and (split == "train" or number % 2)
                rows.append(f"{path},{ABOVE[name] if coarse else name},{site},{split}")
    (folder / "images.csv").write_text("\n".join(rows) + "\n")
    return folder

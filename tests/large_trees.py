"""Random trees of the shape of iNaturalist 2021: 16,344 nodes, 10,000 species, 7 levels."""

from pathlib import Path

import numpy as np
from PIL import Image

from fedgrain.taxonomy import Taxonomy, write_csv

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
SIZES = (3, 13, 51, 273, 1_103, 4_900, 10_000)  # with the root: 16,344 nodes


def large_tree(seed: int = 0, sizes: tuple[int, ...] = SIZES) -> Taxonomy:
    """Deal each rank out to the rank above: one child for everyone, the others to a favoured few.

    As in nature, many families have one genus and many genera one species.
    """
    generator = np.random.default_rng(seed)
    edges, above = [], ["life"]
    for rank, size in zip(RANKS, sizes, strict=False):
        favour = generator.pareto(1.2, len(above)) + 1e-3
        others = generator.choice(len(above), size - len(above), p=favour / favour.sum())
        parents = np.concatenate((np.arange(len(above)), others))
        here = [f"{rank} {number:05d}" for number in range(size)]
        edges += [(above[parent], child) for parent, child in zip(parents, here, strict=True)]
        above = here
    return Taxonomy.from_edges(edges)


def write_site(tree: Taxonomy, folder: Path, count: int = 200, seed: int = 0) -> None:
    """Write a folder data set: the tree, PNGs of 16 x 16 pixels, and a manifest of 4 clients.

    Labels stand at a species, a genus or a family, for four images each, one of them for the test.
    """
    generator = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True)
    write_csv(tree, folder / "taxonomy.csv")
    rows = ["path,label,client,split"]
    for group, leaf in enumerate(generator.choice(tree.leaves, count // 4, replace=False).tolist()):
        label = tree.ids[tree.path(leaf)[-1 - group % 3]]
        for number in range(4 * group, 4 * group + 4):
            pixels = generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"images/{number}.png")
            split = "train" if number % 4 else "test"
            rows.append(f"images/{number}.png,{label},site {group % 4},{split}")
    (folder / "images.csv").write_text("\n".join(rows) + "\n")

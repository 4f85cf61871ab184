"""Glyphs in a folder with a manifest: four sites that label by the projection rule, or lazily."""

from pathlib import Path

import numpy as np
from PIL import Image

from fedgrain.data.glyphs import load_glyphs
from fedgrain.knowledge import Knowledge, hidden_leaves, project
from fedgrain.taxonomy import coarsen, write_csv

SITES = tuple(f"site {number}" for number in range(4))


def projected_site(
    place: Path, *, lazy: float = 0.0, classes: int = 12, seed: int = 47, test: int = 840
) -> Path:
    """Write images, taxonomy, manifest and what the sites know; test images have leaf labels.

    ``lazy`` is the share of a site's leaf labels for which it writes the parent instead.
    """
    (place / "images").mkdir(parents=True)
    data = load_glyphs(train=1800, test=test)
    chosen = np.sort(data.taxonomy.leaves)[:: len(data.taxonomy.leaves) // classes][:classes]
    tree = coarsen(data.taxonomy.restrict([data.taxonomy.ids[leaf] for leaf in chosen]), 3).taxonomy
    write_csv(tree, place / "taxonomy.csv")
    known = hidden_leaves(tree, len(SITES), 0.5, seed)
    Knowledge(tree, known.known, SITES).save(place / "knowledge.json")
    written = project(tree, known).of_nodes
    random, rows = np.random.default_rng(seed), ["path,label,client,split"]
    for number in np.flatnonzero(np.isin(data.labels, chosen)):
        name, site = f"images/{number:04}.png", int(random.integers(len(SITES)))
        split = data.split_names[data.splits[number]]
        label = tree.index(data.taxonomy.ids[data.labels[number]])
        if split == "train":
            label = int(written[site, label])
            stops = random.random() < lazy and tree.is_leaf(label)
            label = int(tree.parents[label]) if stops else label
        Image.fromarray(data.images[number]).save(place / name, compress_level=1)
        rows.append(f"{name},{tree.ids[label]},{SITES[site]},{split}")
    (place / "images.csv").write_text("\n".join(rows) + "\n")
    return place

"""Photographs as people have them, at three sites, with the mistakes that people make.

Sizes from 40 to 420 pixels, JPEG and PNG, grey, RGBA, palette, CMYK, turned by EXIF. The museum
names every class; the zoo names its birds, other animals roughly; volunteers write only groups, and
one of them cannot spell. Two classes have a single image, a test image is a copy of a training
image, and one file is cut short.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from fedgrain.data.glyphs import draw, glyph_taxonomy, node_attributes

TREE = {
    "bird": ("robin", "kite", "bald eagle"),
    "canine": ("beagle", "wolf", "red fox"),
    "feline": ("domestic cat", "lion"),
    "bear": ("brown bear", "ice bear"),
}
GROUP = {name: group for group, names in TREE.items() for name in names}
RARE = ("brown bear", "ice bear")  # one image each
SITES = ("museum", "zoo", "volunteers")
MISSPELT = {"bird": "brid", "canine": "canien"}
TURN = Image.Transpose
TURNED = {6: TURN.ROTATE_90, 3: TURN.ROTATE_180, 8: TURN.ROTATE_270}  # as EXIF says, and back


def write_photographs(folder: Path, train: int = 6, test: int = 2) -> Path:
    """Write images, taxonomy and manifest: so many images for each site and class."""
    (folder / "images").mkdir(parents=True)
    edges = [f"animal,{group}" for group in TREE] + [f"{g},{n}" for n, g in GROUP.items()]
    (folder / "taxonomy.csv").write_text("parent,child\n" + "\n".join(edges) + "\n")
    drawn = _drawings(3 * (train + test))
    rows = ["path,label,client,split"]
    number = 0
    for site in SITES:
        for name in GROUP:
            for turn in range(train + test):
                if name in RARE and (site != "museum" or turn):
                    continue
                file = _save(folder, number, drawn[name].pop())
                split = "train" if turn < train else "test"
                rows.append(f"{file},{_label(site, name, split, number)},{site},{split}")
                number += 1
    copied = rows[1].split(",")[0]
    (folder / "images/copy.jpg").write_bytes((folder / copied).read_bytes())
    rows.append("images/copy.jpg,robin,zoo,test")
    whole = (folder / copied).read_bytes()
    (folder / "images/cut.jpg").write_bytes(whole[: len(whole) // 2])
    rows.append("images/cut.jpg,robin,zoo,train")
    (folder / "images.csv").write_text("\n".join(rows) + "\n")
    return folder


def _label(site: str, name: str, split: str, number: int) -> str:
    group = GROUP[name]
    if split == "test" or site == "museum" or (site == "zoo" and group == "bird"):
        return name
    if site == "volunteers" and number % 4 == 0:
        return MISSPELT.get(group, group)
    return group


def _drawings(each: int) -> dict[str, list[np.ndarray]]:
    taxonomy = glyph_taxonomy()
    node = {name: number for number, name in enumerate(taxonomy.names)}
    wanted = np.repeat([node[name] for name in GROUP], each)
    images = draw(node_attributes(taxonomy)[wanted], 0, 0)
    return {name: list(images[n * each : (n + 1) * each]) for n, name in enumerate(GROUP)}


def _save(folder: Path, number: int, drawing: np.ndarray) -> str:
    """Save a drawing as a photograph: on a canvas of its own size, in one of many kinds of file."""
    side = (40, 96, 150, 280)[number % 4]
    canvas = Image.new("RGB", (side * 3 // 2, side), tuple(int(v) for v in drawing[0, 0]))
    canvas.paste(Image.fromarray(drawing).resize((side, side)), (side // 4, 0))
    exif = Image.Exif()
    exif[0x0112] = (1, 6, 3, 8)[number % 4] if number % 3 == 0 else 1
    if exif[0x0112] in TURNED:  # the camera lay on its side
        canvas = canvas.transpose(TURNED[exif[0x0112]])
    kind = {5: "L", 7: "RGBA", 11: "P", 13: "CMYK"}.get(number % 16, "RGB")
    png = kind in ("RGBA", "P") or (number % 2 and kind != "CMYK")
    name = f"images/{number:04}.{'png' if png else 'jpg'}"
    canvas.convert(kind).save(folder / name, exif=exif)
    return name

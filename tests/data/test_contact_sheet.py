import numpy as np
from PIL import Image

from fedgrain.data import LabelledImages, load_dataset
from fedgrain.images.contact_sheet import GAP, HEADING, NAME_WIDTH, write_contact_sheets
from fedgrain.taxonomy import Taxonomy


def flat_colours() -> LabelledImages:
    """Two images per leaf d and e, one of c, none of f; every image one colour: its label."""
    tree = Taxonomy.from_edges([("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "f")])
    labels = np.array([tree.index(node) for node in "ddeec"], np.int32)
    images = np.broadcast_to((labels * 40)[:, None, None, None], (5, 16, 16, 3)).astype(np.uint8)
    return LabelledImages("flat", images, labels, tree, np.zeros(5, np.int8), ("train",))


def test_a_sheet_per_branch_with_a_row_per_child(tmp_path):
    data = flat_colours()
    paths = write_contact_sheets(data, tmp_path, columns=3)
    assert [path.name for path in paths] == ["0000-a.png", "0001-b.png"]  # c has nothing below it
    pixels = np.asarray(Image.open(paths[1]))
    cell = 48
    assert pixels.shape[0] == HEADING + 2 * (cell + GAP) + GAP
    for row, child in enumerate(data.taxonomy.children(1)):
        top = HEADING + row * (cell + GAP)
        for column in range(3):
            left = NAME_WIDTH + column * (cell + GAP)
            square = pixels[top : top + cell, left : left + cell]
            assert (square == (child * 40 if column < 2 else 255)).all()


def test_the_glyph_sheets_are_repeatable(tmp_path):
    data = load_dataset("glyphs", train=64, test=0)
    for name in ("one", "two"):
        paths = write_contact_sheets(data, tmp_path / name)
    assert len(paths) == len(data.taxonomy.internal) == 26
    for path in paths:
        assert (tmp_path / "one" / path.name).read_bytes() == path.read_bytes()

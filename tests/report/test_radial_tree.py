import json
import re

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from fedgrain.pictures import picture_files as pictures
from fedgrain.pictures import radial_tree
from fedgrain.pictures.drawn_part import CUT_LEAVES, drawn_part
from fedgrain.pictures.radial_layout import LONGEST_NAME, RadialLayout, overlaps
from fedgrain.pictures.radial_tree import draw_radial_tree
from fedgrain.report.html import write_tree_page
from fedgrain.taxonomy import Taxonomy, coarsen, dataset_taxonomy
from fedgrain.text import shortened
from large_trees import large_tree


@pytest.fixture(scope="module")
def cifar100():
    return coarsen(dataset_taxonomy("cifar100"), 8).taxonomy


@pytest.fixture(scope="module")
def imagenet():
    return coarsen(dataset_taxonomy("imagenet"), 32).taxonomy


def corners(axes, text, renderer):
    """The four corners on paper of a text, turned as it stands."""
    angle = text.get_rotation()
    text.set_rotation(0)
    text.set_rotation_mode("anchor")
    box = text.get_window_extent(renderer)
    text.set_rotation(angle)
    x, y = axes.transData.transform(text.get_position())
    around = np.array([[box.x0, box.y0], [box.x1, box.y0], [box.x1, box.y1], [box.x0, box.y1]])
    turn = np.radians(angle)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return (around - [x, y]) @ matrix.T + [x, y]


def separated(one, two):
    """Whether some edge of either rectangle separates them (separating axis theorem)."""
    for shape in (one, two):
        for start, end in ((0, 1), (1, 2)):
            axis = shape[end] - shape[start]
            first, second = one @ axis, two @ axis
            if first.max() <= second.min() or second.max() <= first.min():
                return True
    return False


@pytest.mark.parametrize("name", ["cifar100", "imagenet"])
def test_no_two_names_overlap(name, request, monkeypatch, tmp_path):
    """Measured on the letters as drawn, for 100 and for 1000 leaves."""
    tree = request.getfixturevalue(name)
    figures = []
    monkeypatch.setattr(radial_tree, "write_picture", lambda figure, *_: figures.append(figure))
    draw_radial_tree(tree, tmp_path / "tree")
    (axes,) = figures[0].axes
    renderer = FigureCanvasAgg(figures[0]).get_renderer()
    boxes = [corners(axes, text, renderer) for text in axes.texts]
    shown = {text.get_text() for text in axes.texts}
    assert {shortened(tree.names[leaf], LONGEST_NAME) for leaf in tree.leaves} <= shown
    lows, highs = (np.array([pick(box, axis=0) for box in boxes]) for pick in (np.min, np.max))
    width, height = figures[0].canvas.get_width_height()
    assert lows.min() >= 0
    assert np.all(highs.max(axis=0) <= [width, height])
    close = np.all((lows[:, None] < highs[None]) & (lows[None] < highs[:, None]), axis=2)
    pairs = np.argwhere(np.triu(close, k=1))
    assert len(pairs)  # neighbours on a slant have boxes that meet, but not their letters
    for i, j in pairs:
        assert separated(boxes[i], boxes[j]), (axes.texts[i], axes.texts[j])


def test_a_ring_per_depth_and_leaves_evenly_around(cifar100):
    layout = RadialLayout(cifar100)
    assert len(layout.ring_radii) == cifar100.depth.max() + 1
    assert np.all(np.diff(layout.ring_radii) > 0)
    assert np.array_equal(layout.radius, layout.ring_radii[cifar100.depth])
    assert np.diff(layout.angle[cifar100.leaves]) == pytest.approx(-2 * np.pi / 100)
    distances = np.hypot(*layout.places.T)
    assert distances == pytest.approx(layout.radius)


def test_dots_of_inner_nodes_stay_apart(cifar100):
    layout = RadialLayout(cifar100)
    inner = cifar100.internal
    apart = np.hypot(
        *(layout.places[inner][:, None] - layout.places[inner][None]).transpose(2, 0, 1)
    )
    np.fill_diagonal(apart, np.inf)
    assert apart.min() >= 0.95 * layout.inner_diameter > layout.leaf_diameter


def test_the_papers_colours(monkeypatch, tmp_path):
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])
    figures = []
    monkeypatch.setattr(radial_tree, "write_picture", lambda figure, *_: figures.append(figure))
    known = np.isin(np.array(tree.ids), ["r", "a", "d"])
    draw_radial_tree(tree, tmp_path / "tree", known)
    (dots,) = [c for c in figures[0].axes[0].collections if len(c.get_offsets()) == len(tree)]
    places = RadialLayout(tree).places
    colour_of = {}
    for place, colour in zip(dots.get_offsets(), dots.get_facecolors(), strict=True):
        node = int(np.argmin(np.hypot(*(places - place).T)))
        colour_of[tree.ids[node]] = "#" + "".join(f"{round(255 * c):02x}" for c in colour[:3])
    grey = radial_tree.GREY
    assert colour_of == {"r": "#d62728", "a": "#1f77b4", "b": grey, "c": grey, "d": "#000000"}


def test_svg_and_png_with_the_same_bytes_each_time(tmp_path):
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b & <co>")])
    written = draw_radial_tree(tree, tmp_path / "v1.0", title="one, alpha 0.9")
    assert [path.name for path in written] == ["v1.0.svg", "v1.0.png"]
    first = [path.read_bytes() for path in written]
    assert draw_radial_tree(tree, tmp_path / "v1.0", title="one, alpha 0.9") == written
    assert [path.read_bytes() for path in written] == first
    text = first[0].decode()
    assert "b &amp; &lt;co&gt;" in text
    assert "one, alpha 0.9" in text
    assert not re.search(r"<dc:date>|Matplotlib v", text)
    with Image.open(written[1]) as image:
        assert len(np.unique(np.asarray(image).reshape(-1, 4), axis=0)) > 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v1.0.png", "v1.0.svg"]


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    figure = pictures.new_figure(1, 1)

    def fail(aside, **_):
        aside.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        pictures.write_picture(figure, tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


def test_a_lone_root_and_long_names(tmp_path):
    written = draw_radial_tree(Taxonomy.from_edges([], root="r"), tmp_path / "x")
    assert all(path.exists() for path in written)
    assert shortened("x" * LONGEST_NAME, LONGEST_NAME) == "x" * LONGEST_NAME
    assert shortened("x" * 99, LONGEST_NAME) == "x" * (LONGEST_NAME - 1) + "…"


def test_names_are_text_and_never_formulas(tmp_path):
    names = {"r": r"all of $x$", "a": r"costs $5\x$"}
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b")], names)
    svg, _ = draw_radial_tree(tree, tmp_path / "x", title=r"$y\z$")
    for text in (*names.values(), r"$y\z$"):
        assert f">{text}<" in svg.read_text()


def test_boxes_that_overlap():
    others = np.array([[0, 0, 1, 1], [1, 0, 2, 1], [0.5, 0.5, 3, 3], [0, 2, 1, 3]], dtype=float)
    assert overlaps(np.array([0, 0, 1, 1.0]), others).tolist() == [True, False, True, False]


def wide_tree(children):
    return Taxonomy.from_edges([("r", f"w{number:05d}") for number in range(children)])


def test_a_tree_with_room_is_drawn_whole():
    for tree in (wide_tree(1_200), Taxonomy.from_edges([], root="r")):
        part = drawn_part(tree)
        assert part.taxonomy is tree and part.caption is None and not part.is_cut.any()


def test_of_a_large_tree_whole_levels_are_drawn():
    tree = large_tree()
    part = drawn_part(tree)
    assert part.caption == "4 of 7 levels; in brackets the leaves below, 10,000 in all"
    assert np.array_equal(part.nodes, np.flatnonzero(tree.depth <= 4))
    assert part.taxonomy.ids == tuple(tree.ids[node] for node in part.nodes)
    assert np.array_equal(part.nodes[part.is_cut], np.flatnonzero(tree.depth == 4))
    told = [part.taxonomy.names[leaf] for leaf in part.taxonomy.leaves]
    counts = [int(re.search(r"\(([\d,]+)\)$", name)[1].replace(",", "")) for name in told]
    assert len(counts) <= CUT_LEAVES and sum(counts) == 10_000
    assert max(map(len, told)) <= LONGEST_NAME


def test_of_a_wide_or_deep_tree_a_part_is_drawn():
    favoured = Taxonomy.from_edges(
        [("r", f"w{n:05d}") for n in range(5_000)] + [("w04999", "x"), ("w04999", "y")]
    )
    part = drawn_part(favoured)
    assert len(part.taxonomy.leaves) == CUT_LEAVES
    assert part.taxonomy.names[-2:] == ("w04999 (2)", "… 4,401 more")
    chain = Taxonomy.from_edges([(f"n{n:03d}", f"n{n + 1:03d}") for n in range(400)])
    assert drawn_part(chain).taxonomy.depth.max() == 40


def test_the_picture_of_a_large_tree_has_a_sensible_size(tmp_path):
    tree = large_tree(sizes=(3, 13, 51, 273, 2_000))
    known = np.zeros(len(tree), dtype=bool)
    known[tree.path(tree.leaves[0])] = True
    svg, png = draw_radial_tree(tree, tmp_path / "tree", known, "client 0")
    with Image.open(png) as picture:
        assert max(picture.size) < 3_000
    text = svg.read_text("utf-8")
    assert "client 0: 4 of 5 levels; in brackets the leaves below, 2,000 in all" in text
    assert text.count("<text") < 500


def test_a_page_shows_all_of_a_large_tree(tmp_path):
    evil = "</script><script>alert(1)</script>"
    tree = Taxonomy.from_edges([(evil, "a"), (evil, "b"), ("a", "c")], {"b": "<b>"})
    page = write_tree_page(tree, tmp_path / "tree.html").read_text("utf-8")
    assert evil not in page
    content = page.split('<script type="application/json" id="figure">')[1].split("</script>")[0]
    (trace,) = json.loads(content)["data"]
    assert trace["values"] == [2, 1, 1, 1]
    assert trace["labels"][-1] == "&lt;b&gt;"

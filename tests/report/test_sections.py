"""What the sections of a report say, checked by hand and on a tree of 1,911 classes."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from fedgrain.data import LabelledImages
from fedgrain.models.label_check import Doubt, LabellerFinding
from fedgrain.pictures.interactive_plots import tree_trace
from fedgrain.report.html import render
from fedgrain.scoring.metrics import cut_back
from fedgrain.sections.answers import Answers
from fedgrain.sections.branches import Branch, branches_of, worst, wrong_at
from fedgrain.sections.calibration_block import calibration_block, reliability_by_depth
from fedgrain.sections.classes_section import classes_section
from fedgrain.sections.confusion import (
    MOST_GROUPS,
    confusion_block,
    depths_with_room,
    ends_at,
    often_confused,
    pairs_sheet,
)
from fedgrain.sections.coverage_section import coverage_section
from fedgrain.sections.headline import plain_headline
from fedgrain.sections.labellers_section import labellers_block, labellers_section
from fedgrain.sections.sites_section import rounds_sheet
from large_page import CLASSES, FAMILIES, GROUPS, drawn_answers, large_page, large_tree
from small_federation import NODE, TREE


def answers_of(pairs, split="test", said=None):
    """Return answers on the small tree, r(a(a1 a2 a3) b(b1 b2) c), written as "truth found"."""
    words = [pair.split() for pair in pairs]
    truth, leaf = (np.array([NODE[w[side]] for w in words]) for side in (0, 1))
    found = cut_back(truth, leaf, TREE)
    probability = np.full((len(truth), 3), 0.5) if said is None else np.array(said)
    numbers = np.arange(len(truth))
    return Answers(TREE, TREE, split, numbers, truth, found, truth, found, probability)


@pytest.fixture(scope="module")
def large():
    return large_page()


def test_headline_for_a_museum_director():
    pairs = ["a1 a1"] * 6 + ["a1 a2"] * 2 + ["b1 a1"] + ["c c"] + ["a a3", "b c"]
    told = plain_headline(answers_of(pairs))
    assert told == (
        "Of 10 images it has not seen, it names the right class of 7 and of 2 more the right group "
        "(such as a1 taken for a2: both are a). Measured on the 10 test images that are labelled "
        "in full; of 2 with a coarser label, it agrees with the label of 1."
    )
    many = plain_headline(answers_of(["a1 a1"] * 150 + ["a1 b1"] * 50))
    assert many.startswith("Of 100 images it has not seen, it names the right class of 75. ")
    assert "200 test images that are labelled in full" in many


def test_headline_says_what_was_not_measured():
    told = plain_headline(answers_of(["a a1", "b a1"], split="validation"))
    assert told.startswith("No image was labelled in full, so it is not known how often")
    assert "labels of 1 of 2 validation images it was not trained on" in told
    told = plain_headline(answers_of(["a1 a1"], split="validation"))
    assert "decided when training stopped" in told


def test_a_wrong_branch_below_the_root_is_no_right_group():
    """Every pair of classes is in the root together: that says nothing."""
    assert "more the right group" not in plain_headline(answers_of(["c a1", "a1 c"]))


def brute_branches(truth, found, tree):
    """Follow every image down the tree."""
    arrived, right = {}, {}
    for is_, said in zip(truth.tolist(), found.tolist(), strict=True):
        way, other = tree.path(is_).tolist(), tree.path(said).tolist()
        for step in range(len(way) - 1):
            if step >= len(other) or way[step] != other[step]:
                break
            arrived[way[step]] = arrived.get(way[step], 0) + 1
            if step + 1 < len(other) and way[step + 1] == other[step + 1]:
                right[way[step]] = right.get(way[step], 0) + 1
    return {node: (count, right.get(node, 0)) for node, count in arrived.items()}


@pytest.mark.parametrize("seed", range(5))
def test_branches_are_those_of_brute_force(seed):
    random = np.random.default_rng(seed)
    tree = large_tree(300)
    truth = random.integers(0, len(tree), 400)
    found = cut_back(truth, random.choice(tree.leaves, 400), tree)
    near = random.random(400) < 0.5
    found[near] = truth[near]
    got = {b.node: (b.arrived, b.right) for b in branches_of(truth, found, tree)}
    assert got == brute_branches(truth, found, tree)
    for node, (arrived, right) in got.items():
        assert len(wrong_at(node, truth, found, tree)) == arrived - right


def test_one_wrong_image_of_one_does_not_lead_the_list():
    assert Branch(1, 60, 30).surely_wrong > Branch(2, 1, 0).surely_wrong
    assert Branch(1, 4, 0).surely_wrong > Branch(1, 4, 4).surely_wrong == 0
    # Wilson's interval of 30 of 60, from a table
    assert Branch(1, 60, 30).surely_wrong == pytest.approx(0.3773, abs=1e-4)
    assert worst([Branch(2, 1, 0), Branch(1, 60, 30)]) == [Branch(1, 60, 30)]


def labeller(name, early, doubts=()):
    knows = np.array([1.0 if node in ("r", "a", "a1", "b") else 0.1 for node in TREE.ids])
    return LabellerFinding(name, 10, 4, (NODE["a1"],), early, tuple(doubts), knows)


def test_labellers_by_hand():
    """A row per labeller; the least likely label first, whoever wrote it; none without images."""
    doubts = [Doubt(2, NODE["a1"], 0.04, NODE["c"]), Doubt(0, NODE["b"], 0.01, NODE["a2"])]
    found = [labeller("oslo <b>", {1: 0.5}, doubts[:1]), labeller("rome", {0: 0.25}, doubts[1:])]
    pixels = np.zeros((3, 8, 8, 3), np.uint8)
    labels, splits = np.full(3, 5, np.int32), np.zeros(3, np.int8)
    data = LabelledImages("few", pixels, labels, TREE, splits, ("train",))
    section = labellers_section(found, TREE, data, images=True)
    people, wrong = ([[e.text for e in row] for row in s.rows] for s in section.sheets)
    assert people == [
        ["oslo <b>", "10", "40%", "1 of 6", "1", "–", "50%"],
        ["rome", "10", "40%", "1 of 6", "1", "25%", "–"],
    ]
    assert wrong == [["rome", "0", "b", "1%", "a2"], ["oslo <b>", "2", "a1", "4%", "c"]]
    assert section.pictures[0].about[0] == ("labeller", "rome")
    private = labellers_section(found, TREE, data, images=False)
    assert len(private.sheets) == 1 and not private.pictures

    block = labellers_block(found, TREE)
    assert [view.name for view in block.views] == ["all labellers", "oslo <b>", "rome"]
    (drawn,) = block.views[1].figure["data"]
    assert dict(zip(drawn["ids"], drawn["marker"]["colors"], strict=True))["a1"] == 1.0
    shown = [[e.text for e in row] for row in block.views[1].sheet.rows]
    assert shown == [["r / a", "100%"], ["r / a / a1", "100%"], ["r / b", "100%"]]


def test_pairs_by_hand():
    tested = answers_of(["a1 a2"] * 3 + ["a1 a1"] + ["a2 a1"] + ["b1 c"] * 2)
    table = pairs_sheet("pairs", tested.truth, tested.found, TREE)
    shown = [[entry.text for entry in row] for row in table.rows]
    assert shown == [
        ["a1", "a2", "3", "4", "75%", "1", "a"],
        ["b1", "c", "2", "2", "100%", "0", "r"],
        ["a2", "a1", "1", "1", "100%", "3", "a"],
    ]


def test_with_one_image_a_class_pairs_are_of_groups():
    tree = large_tree()
    tested = drawn_answers(tree)
    other = np.where(np.arange(len(tested)) % 3 == 0, np.roll(tested.truth, 500), tested.found)
    tested = Answers(tree, tree, "test", *[tested.numbers, tested.truth, other] * 1,
                    tested.truth, other, tested.probability)  # fmt: skip
    table = often_confused(tested)
    assert "groups" in table.title
    assert int(table.rows[0][2].text) >= 3


def test_maps_have_room_for_every_name(large):
    tree = large_tree()
    assert depths_with_room(tree) == [1]
    assert len(ends_at(tree, 1)) == GROUPS
    assert len(ends_at(tree, 2)) == FAMILIES
    for key in ("confusion", "knowledge"):
        figure = next(block for block in large.blocks if block.key == key).views[0].figure
        axis = figure["layout"]["xaxis"]
        assert len(axis["ticktext"]) == len(figure["data"][0]["x"]) <= MOST_GROUPS
        assert axis.get("showticklabels", True)
        assert axis["ticktext"][0] == "group 0"


def test_a_map_counts_every_image_once():
    tested = answers_of(["a1 a2", "a1 a1", "b2 c", "c c", "a a1"])
    block = confusion_block(tested)
    by_name = {view.name: view.figure["data"][0] for view in block.views}
    assert list(by_name) == ["depth 2: 6 classes", "depth 1: 3 groups"]
    deep = np.array(by_name["depth 2: 6 classes"]["customdata"])
    assert deep.sum() == 4  # the coarse label says nothing at depth 2
    names = by_name["depth 2: 6 classes"]["y"]
    assert deep[names.index("a1"), names.index("a2")] == 1
    top = by_name["depth 1: 3 groups"]
    assert np.array(top["customdata"]).tolist() == [[3, 0, 0], [0, 0, 1], [0, 0, 1]]
    assert top["z"] == [[1.0, None, None], [None, None, 1.0], [None, None, 1.0]]


def test_reliability_leaves_out_what_a_coarse_label_hides():
    pairs = ["a1 a1"] * 15 + ["a1 b1"] * 5 + ["a a1"] * 20 + ["c a1"] * 10
    said = [[1, 0.8, 0.5]] * 50
    found = reliability_by_depth(answers_of(pairs, said=said))
    assert found[1].samples == 50
    assert found[1].right.tolist() == [(15 + 20) / 50]
    assert found[2].samples == 30  # c is a class: whoever goes further down is wrong
    assert found[2].right.tolist() == [15 / 30]
    text = calibration_block(answers_of(pairs, said=said)).text
    assert "At depth 1 it says 80% on average and is right in 70% of 50 images: too sure" in text
    assert calibration_block(answers_of(["a1 a1"] * 5)) is None


def test_coverage_in_all_per_site_per_depth_and_per_class():
    pairs = ["a1 a1"] * 40 + ["b1 a1"] * 10 + ["a a1"] * 5
    tested = answers_of(pairs)
    nodes = {0.8: ["a1"] * 55, 0.9: ["a"] * 45 + ["r"] * 10}
    safe = {share: np.array([NODE[n] for n in found]) for share, found in nodes.items()}
    data = LabelledImages(
        "drawn",
        np.zeros((55, 1, 1, 3), np.uint8),
        tested.truth.astype(np.int32),
        TREE,
        np.zeros(55, np.int8),
        ("test",),
        clients=np.r_[[0] * 30, [1] * 20, [-1] * 5].astype(np.int32),
        client_names=("zoo", "museum"),
    )
    section = coverage_section(replace(tested, guaranteed=safe, calibrated_on=100), data)
    shown = [[[entry.text for entry in row] for row in sheet.rows] for sheet in section.sheets]
    assert shown == [
        [["0.8", "50", "80.0%", "yes", "100%", "1.000"],
         ["0.9", "50", "90.0%", "yes", "0%", "3.300"]],
        [["zoo", "30", "100.0%", "30", "100.0%"], ["museum", "20", "50.0%", "20", "75.0%"]],
        [["0", "0", "–", "5", "100.0%"], ["1", "0", "–", "45", "88.9%"],
         ["2", "50", "80.0%", "0", "–"]],
        [["b1", "10", "50.0%"], ["a1", "40", "100.0%"]],
    ]  # fmt: skip
    low = {0.9: np.full(55, NODE["a1"])}  # 80% where 90% were asked
    for images, kept in ((10**6, "no"), (20, "within chance")):
        worse = replace(tested, guaranteed=low, calibrated_on=images)
        assert coverage_section(worse, data).sheets[0].rows[0][3].text == kept
    assert coverage_section(tested, data) is None  # nothing can be guaranteed


def test_every_class_with_what_it_is_taken_for():
    section = classes_section(answers_of(["a1 a2"] * 3 + ["a1 a1"] + ["c c"] * 2))
    shown = [[entry.text for entry in row] for row in section.sheets[-1].rows]
    assert shown == [
        ["a / a1", "4", "1", "25%", "1", "100%", "0.625", "a2 (3)"],
        ["c", "2", "2", "100%", "2", "100%", "1.000", "–"],
    ]


def test_who_took_part():
    lines = [
        {"clients": [{"client": "zoo", "loss": 2.0}, {"client": "museum"}], "faults": []},
        {"clients": [{"client": "zoo", "loss": 1.0}], "faults": [{"client": "museum"}]},
    ]
    shown = [[entry.text for entry in row] for row in rounds_sheet(lines).rows]
    assert shown == [["zoo", "2", "2", "0", "2.000", "1.000"], ["museum", "1", "2", "1", "–", "–"]]
    assert rounds_sheet([]) is None


def test_the_sunburst_shows_as_many_rings_as_have_room():
    assert tree_trace(large_tree())["maxdepth"] == 3
    assert tree_trace(TREE)["maxdepth"] == 3


def test_a_page_of_1911_classes_is_small_and_has_every_class(large):
    text = render(large)
    assert len(text.encode()) < 8_000_000
    rows = re.search(r'data-rows-of="classes-2">(.*?)</script>', text, re.DOTALL).group(1)
    assert len(json.loads(rows)) == CLASSES
    branches = large.close.branches
    assert all(int(row[2].text) >= 5 for row in branches.rows)
    assert "labelled in full" in large.headline
    assert "What the words mean" in text

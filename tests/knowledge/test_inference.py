"""How often a label must occur to count as known: by how many occur once."""

import numpy as np
import pytest

from fedgrain.knowledge import Knowledge
from fedgrain.knowledge.inference import infer
from fedgrain.taxonomy import Taxonomy


def star(leaves: int) -> Taxonomy:
    return Taxonomy.from_edges([("r", f"c{number:04}") for number in range(leaves)])


def test_a_site_that_names_every_class_once_knows_them_all() -> None:
    """With at least two of each it would know nothing: the emoji vendors of issue 21."""
    tree = star(1911)
    names = [f"c{number:04}" for number in range(1911)]
    known = Knowledge.from_labels(tree, names, ["vendor"] * 1911)
    assert known.known.all()
    assert Knowledge.from_labels(tree, names, ["vendor"] * 1911, min_count=2).known.sum() == 1


def test_a_few_strays_among_many_labels_are_no_knowledge() -> None:
    tree = star(40)
    often = [f"c{number:04}" for number in range(10) for _ in range(100)]
    strays = [f"c{number:04}" for number in range(10, 22)]  # 12 of 1012: slips explain 16
    known = Knowledge.from_labels(tree, often + strays, ["site"] * 1012)
    assert known.known_ids(0) == ["r", *sorted(set(often))]
    tail = [f"c{number:04}" for number in range(10, 32)]  # 22 are more than slips
    known = Knowledge.from_labels(tree, often + tail, ["site"] * 1022)
    assert known.known_ids(0) == ["r", *sorted({*often, *tail})]


def test_every_labeller_is_judged_by_its_own_labels() -> None:
    tree = star(30)
    careless = ["c0000"] * 200 + ["c0001"]
    thorough = [f"c{number:04}" for number in range(30)]
    clients = ["a"] * len(careless) + ["b"] * len(thorough)
    known = Knowledge.from_labels(tree, careless + thorough, clients)
    assert known.known_ids(0) == ["r", "c0000"] and known.known[1].all()


@pytest.mark.parametrize(
    ("often", "once", "expected"),
    [(0, 1, 2), (0, 2, 1), (9, 1, 2), (99, 3, 2), (96, 4, 1), (990, 16, 2), (983, 17, 1)],
)
def test_what_slips_explain(often: int, once: int, expected: int) -> None:
    """One in a hundred, and two standard deviations above; one stray is never knowledge."""
    counts = np.array([often, *[1] * once])
    found = infer(counts[counts > 0])
    assert found.min_count == expected
    assert found.labels == often + once
    assert infer(counts, 5).min_count == 5


def test_the_reason_is_told() -> None:
    few, many = infer(np.array([500, 1, 1])).reason, infer(np.ones(50, np.int64)).reason
    assert few == "2 labels occur once, perhaps slips of the pen: not counted as known"
    assert many == "50 labels occur once, too many for slips of the pen: counted as known"
    assert infer(np.array([3, 2])).reason == "no label occurs once"

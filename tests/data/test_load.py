import numpy as np
import pytest

from fedgrain.data import load_dataset
from fedgrain.errors import DataError

MODULE = """
import numpy as np
from fedgrain.data import LabelledImages
from fedgrain.taxonomy import Taxonomy

def mine(count=2, root=None):
    tree = Taxonomy.from_edges([("a", "b"), ("a", "c")])
    return LabelledImages(name=f"mine in {root}", images=np.zeros((count, 4, 4, 3), np.uint8),
        labels=np.ones(count, np.int32), taxonomy=tree, splits=np.zeros(count, np.int8),
        split_names=("train",))

def wrong():
    return 5

def raising():
    return 1 / 0

constant = 7
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_own_data.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_function_of_the_users(module):
    data = load_dataset("my_own_data:mine", root="here", count=3)
    assert (len(data), data.name) == (3, "mine in here")
    np.testing.assert_array_equal(data.labels, [1, 1, 1])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar", "there is no data set 'cifar'; choose one of glyphs, cifar100"),
        ("my_own_data:wrong", "returned int instead of LabelledImages"),
        ("my_own_data:raising", r"ZeroDivisionError: division by zero; \S+my_own_data.py, line 16"),
        ("my_own_data:constant", "has no callable|is not a function"),
        ("my_own_data:nothing", "nothing"),
        ("no_such_module:x", "no_such_module"),
        (":x", "':x'"),
    ],
)
def test_names_that_give_no_data(module, name, message):
    with pytest.raises(DataError, match=message):
        load_dataset(name)


def test_an_option_the_data_set_does_not_have():
    with pytest.raises(DataError, match=r"glyphs: .*'root'; its options are: train, test, seed"):
        load_dataset("glyphs", root="x")

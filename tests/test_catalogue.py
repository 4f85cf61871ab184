"""The catalogue names what exists, and the command line can read it without torch."""

import subprocess
import sys

import pytest

from fedgrain import catalogue
from fedgrain.errors import HeadError
from fedgrain.plugins import load_named


@pytest.mark.parametrize(
    "entry",
    [
        *catalogue.HEADS.values(),
        *catalogue.NETS.values(),
        *catalogue.DATASETS.values(),
        *catalogue.ALGORITHMS.values(),
        *catalogue.IMPORTERS.values(),
    ],
    ids=lambda entry: entry.name,
)
def test_every_entry_has_a_home(entry):
    made = load_named(entry.home, "entry", HeadError)
    assert callable(made)
    if entry.name in (*catalogue.HEADS, *catalogue.ALGORITHMS):
        assert made.name == entry.name


def test_nothing_heavy_is_imported():
    script = "import sys, fedgrain.catalogue; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_stages_and_defaults():
    assert [entry.name for entry in catalogue.stages("fedbdft")] == ["fedavg", "fedbdft"]
    assert [entry.name for entry in catalogue.stages("mine:algorithm")] == ["mine:algorithm"]
    assert [catalogue.net_for(side) for side in (28, 47, 48, 94, 95)] == [
        "cnn-32", "cnn-32", "cnn-64", "cnn-64", "squeezenet",
    ]  # fmt: skip

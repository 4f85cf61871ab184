"""Every command on a tree of 16,344 nodes, in 1.5 GB. How long it takes: benchmarks/trees.py."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from fedgrain.taxonomy import read_csv
from large_trees import large_tree, write_site

MOST_MEMORY = 1.5 * 2**30
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large") / "site"
    write_site(large_tree(), folder)
    return folder


COMMAND = """
import sys
from fedgrain.cli import main
code = main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(peak.split()[1], file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def fedgrain(warm):
    """Run the command in a process of its own; return what it printed, if it kept to the memory."""

    def run(*arguments):
        done = warm.python("-c", COMMAND, *arguments, "--json")
        assert done.returncode == 0, done.stderr
        assert int(done.stderr.split()[-1]) * 1024 < MOST_MEMORY
        return json.loads(done.stdout)

    return run


def test_the_tree_is_like_that_of_life():
    tree = large_tree()
    assert tree == large_tree() != large_tree(seed=1)
    assert tree.properties() == {
        "nodes": 16_344, "internal": 6_344, "max_depth": 7, "mean_children": 2.58,
    }  # fmt: skip
    assert np.sum(tree.child_counts == 1) > 4_000


def test_taxonomy(fedgrain, site, tmp_path):
    found = fedgrain(
        "taxonomy", "--csv", site / "taxonomy.csv", "--max-children", 32, "--out", tmp_path
    )
    assert found["full"]["nodes"] == 16_344 and found["coarse"]["exact"]
    for tree in ("full", "coarse"):
        assert len(read_csv(tmp_path / f"{tree}.csv")) == found[tree]["nodes"]
        with Image.open(tmp_path / f"{tree}.png") as picture:
            assert max(picture.size) < 5_000
        assert (tmp_path / f"{tree}.svg").stat().st_size < 2e6
        assert (tmp_path / f"{tree}.html").stat().st_size < 8e6


def test_knowledge(fedgrain, site):
    found = fedgrain("knowledge", "--csv", site / "taxonomy.csv", "--alpha", 0.7, "--clients", 4)
    assert [client["known_leaves"] for client in found["clients"]] == [3_000] * 4


def test_run_predict_report(fedgrain, site, tmp_path):
    found = fedgrain(
        *["run", "--dataset", "folder", "--data-root", site, "--image-size", 32, "--rounds", 1],
        *["--partition", "manifest", "--knowledge", "inferred", "--min-count", 1, "--workers", 1],
        *["--out", tmp_path / "run"],
    )
    assert found["rounds"] == 1
    images = sorted((site / "images").glob("*.png"))[:3]
    predicted = fedgrain("predict", tmp_path / "run", *images, "--confidence", 0.5)
    assert len(predicted["predictions"]) == 3
    fedgrain("report", tmp_path / "run")
    assert (tmp_path / "run" / "report.html").stat().st_size < 15e6

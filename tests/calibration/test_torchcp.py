"""On a flat tree our sets are those of torchcp: APS without randomisation, split calibration.

torchcp itself runs here. Only the packages above its modules are left out: their ``__init__``
import graphs and language models, and with them torch_geometric, torchsort and transformers.
"""

import importlib
import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from fedgrain.calibration import ScoreCounts, guaranteed_sets, set_scores
from fedgrain.calibration.node_sets import leaves_taken, set_cells
from fedgrain.calibration.score_counts import EDGES
from fedgrain.heads import build_head
from fedgrain.taxonomy import Taxonomy

FLAT = Taxonomy.from_edges([("all", f"leaf{n:02}") for n in range(12)])
CALIBRATION, NEW = 300, 200
PACKAGES = ("", ".classification", ".classification.predictor", ".classification.score")


@pytest.fixture(scope="module")
def torchcp():
    """The classes ``APS`` and ``SplitPredictor`` of torchcp."""
    installed = importlib.util.find_spec("torchcp")
    if installed is None or installed.origin is None:
        pytest.skip("torchcp is not installed: make .venv/.ready")
    before = set(sys.modules)
    for name in PACKAGES:
        package = ModuleType(f"torchcp{name}")
        package.__path__ = [str(Path(installed.origin).parent.joinpath(*name.split(".")))]
        sys.modules[package.__name__] = package
    score = importlib.import_module("torchcp.classification.score.aps")
    split = importlib.import_module("torchcp.classification.predictor.split")
    yield score.APS, split.SplitPredictor
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "torchcp":
            del sys.modules[name]


def made(images, seed):
    """Return logits, and log P of the nodes of the flat tree."""
    head = build_head("flat-softmax", FLAT)
    noise = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(images, head.num_outputs, generator=noise, dtype=torch.float64)
    return logits, head.node_log_probs(logits)


def drawn(logits):
    """Draw truths from the model's own probabilities."""
    noise = torch.Generator().manual_seed(3)
    return 1 + logits.softmax(1).multinomial(1, generator=noise)[:, 0].numpy()


def fitted(torchcp, guarantee, logits, labels):
    """torchcp's predictor, calibrated."""
    aps, split = torchcp
    with pytest.warns(DeprecationWarning, match="'temperature'"):  # it warns of its own default
        theirs = split(aps(score_type="softmax", randomized=False), alpha=1 - guarantee)
    theirs.calculate_threshold(logits, torch.from_numpy(labels - 1))
    return theirs


@pytest.mark.parametrize("guarantee", [0.8, 0.9, 0.95])
def test_the_sets_are_those_of_torchcp(torchcp, guarantee):
    (logits, table), (new_logits, new) = made(CALIBRATION, 1), made(NEW, 2)
    labels = drawn(logits)
    theirs = fitted(torchcp, guarantee, logits, labels)
    wanted = theirs.predict_with_logits(new_logits).bool().numpy()  # [images, leaves]
    assert 2 < wanted.sum(1).mean() < 9
    scores = set_scores(table, labels, FLAT)
    np.testing.assert_allclose(scores, theirs.cal_scores.numpy(), atol=1e-12)
    exact = np.sort(scores)[math.ceil((CALIBRATION + 1) * guarantee) - 1]
    np.testing.assert_allclose(exact, float(theirs.q_hat), atol=1e-12)
    np.testing.assert_array_equal(leaves_taken(new, FLAT, exact), wanted)


@pytest.mark.parametrize("guarantee", [0.8, 0.9, 0.95])
def test_counts_on_the_grid_round_the_threshold_up_to_an_edge(torchcp, guarantee):
    """A model keeps counts, so that sites send no scores; the sets are torchcp's at that edge."""
    (logits, table), (new_logits, new) = made(CALIBRATION, 1), made(NEW, 2)
    labels = drawn(logits)
    theirs = fitted(torchcp, guarantee, logits, labels)
    counts = ScoreCounts.of(labels, set_cells(table, labels, FLAT))
    threshold = counts.threshold(guarantee, FLAT)
    assert threshold == EDGES[np.searchsorted(EDGES, float(theirs.q_hat))]
    wanted = theirs.predict_with_logits(new_logits, threshold).bool().numpy()
    found = guaranteed_sets(new, FLAT, threshold)
    for members, row, likeliest in zip(found, wanted, new_logits.argmax(1), strict=True):
        taken = np.isin(FLAT.leaves, members) | np.isin(0, members)  # the root is every leaf
        if row.any():
            np.testing.assert_array_equal(taken, row)
        else:  # theirs is empty; ours never is
            assert np.flatnonzero(taken).tolist() == [int(likeliest)]

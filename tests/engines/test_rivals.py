"""FedRS and FedLC against their formulas, through the client's own loss."""

import numpy as np
import pytest
import torch

from fedgrain import Config
from fedgrain.errors import ConfigError
from fedgrain.federated import TrainingSettings
from small_federation import TREE, engine, federation

LABELS = [["a1", "a1", "a1", "b2", "a"], ["c", "b1", "b1", "r", "b"]]
LEAVES = [TREE.ids[leaf] for leaf in TREE.leaves]


def losses_of(client: int, **rival: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return scores and classes of a client's samples that enter, and its loss on them."""
    trainer = engine(federation(LABELS), TrainingSettings(), head="flat-softmax", **rival).trainer
    data = trainer.whole_data(client)
    with torch.no_grad():
        scores = 5 * trainer.model.net(data.source.batch(data.indices))
        loss = trainer.supervised(client).loss(scores, data.targets)
    classes = [LEAVES.index(TREE.ids[node]) for node in data.targets.tolist()]
    return scores.double().numpy(), np.array(classes), float(loss)


def counts_of(client: int) -> dict[int, int]:
    return {number: LABELS[client].count(leaf) for number, leaf in enumerate(LEAVES)}


def cross_entropy(scores: np.ndarray, classes: np.ndarray) -> float:
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return float(-np.log(shares[np.arange(len(classes)), classes]).mean())


@pytest.mark.parametrize("client", [0, 1])
@pytest.mark.parametrize("alpha", [0.5, 0.0])
def test_fedrs_scales_the_scores_of_classes_the_client_has_not(client, alpha):
    scores, classes, loss = losses_of(client, restricted_softmax=alpha)
    for number, count in counts_of(client).items():
        if not count:
            scores[:, number] *= alpha
    assert len(classes) == sum(counts_of(client).values())  # coarse labels are dropped
    assert loss == pytest.approx(cross_entropy(scores, classes), abs=1e-5)


@pytest.mark.parametrize("client", [0, 1])
def test_fedlc_lowers_the_scores_of_rare_classes(client):
    scores, classes, loss = losses_of(client, logit_calibration=0.8)
    for number, count in counts_of(client).items():
        scores[:, number] -= 0.8 * max(count, 1e-8) ** -0.25
    assert loss == pytest.approx(cross_entropy(scores, classes), abs=1e-5)


def test_without_a_rival_every_client_has_the_plain_loss():
    for client in (0, 1):
        scores, classes, loss = losses_of(client)
        assert loss == pytest.approx(cross_entropy(scores, classes), abs=1e-5)
        assert losses_of(client, restricted_softmax=1.0)[2] == pytest.approx(loss, abs=1e-6)


def test_rivals_are_refused_where_labels_are_no_classes():
    with pytest.raises(ConfigError, match="restricted_softmax is for flat-softmax under paper, n"):
        Config(head="flat-softmax", supervision="projection", restricted_softmax=0.5)
    with pytest.raises(ConfigError, match="logit_calibration is for flat-softmax under paper, not"):
        Config(head="ps-softmax", logit_calibration=1.0)
    with pytest.raises(ConfigError, match="exclude each other"):
        Config(head="flat-softmax", restricted_softmax=0.5, logit_calibration=1.0)
    with pytest.raises(ConfigError, match="ancestor_terms are for flat-softmax or ps-softmax"):
        Config(head="cond-softmax", ancestor_terms=0.5)


@pytest.mark.parametrize("rival", ["restricted_softmax", "logit_calibration"])
@pytest.mark.parametrize("term", ["label_smoothing", "ancestor_terms"])
def test_a_loss_has_one_softmax_and_not_two(rival, term):
    """Terms beside the likelihood would take the softmax that the rival replaces."""
    Config(head="flat-softmax", supervision="paper", **{rival: 0.5, "gce": 0.7})
    with pytest.raises(ConfigError, match=f"^{rival} changes the .* which {term} would .*to 0$"):
        Config(head="flat-softmax", supervision="paper", **{rival: 0.5, term: 0.1})

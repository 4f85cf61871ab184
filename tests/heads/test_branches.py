import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedgrain.errors import HeadError
from fedgrain.heads import (
    TOGETHER,
    CondSoftmax,
    DecoupledModel,
    FlatSoftmax,
    branch_dataset,
    branch_losses,
    decouple,
)
from fedgrain.nets import build_net
from fedgrain.scoring.rules import node_log_probs, predict
from fedgrain.taxonomy import Taxonomy
from fedgrain.taxonomy.classes import DEFAULT_MAX_CHILDREN, dataset_taxonomy
from fedgrain.taxonomy.coarsen import coarsen
from heads_by_hand import QUICK, SEEDS
from strategies import trees


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


class Small(nn.Module):
    """Two features are enough; ``bits`` rounds the outputs so that ties are common."""

    def __init__(self, outputs, seed, bits=None):
        super().__init__()
        self.features = nn.Identity()
        self.head = nn.Linear(5, outputs)
        self.bits = bits
        with torch.no_grad():
            self.head.weight.copy_(torch.randn(outputs, 5, generator=generator(seed)) * 2)
            self.head.bias.zero_()

    def forward(self, images):
        logits = self.head(self.features(images))
        return logits if self.bits is None else (logits * self.bits).round() / self.bits


@pytest.mark.parametrize("name", ["cnn-32", "squeezenet"])
def test_decoupled_without_tuning_predicts_what_it_did_before(name):
    cifar100 = coarsen(dataset_taxonomy("cifar100"), DEFAULT_MAX_CHILDREN["cifar100"]).taxonomy
    tree = cifar100 if name == "cnn-32" else TREE
    side = 32 if name == "cnn-32" else 95
    head = CondSoftmax(tree)
    shape = (side, side, 3)
    net = build_net(name, head.num_outputs, generator=generator(), image_shape=shape).eval()
    images = torch.randn(64 if name == "cnn-32" else 8, 3, side, side, generator=generator(1))
    model = DecoupledModel(tree, decouple(net, head)).eval()
    before, after = node_log_probs(net, head, images), model.node_log_probs(images)
    assert (before.exp() - after.exp()).abs().max() < 1e-5
    for rule in ("leaf", "majority"):
        assert (predict(before, tree, rule) == predict(after, tree, rule)).all()
    through_head = node_log_probs(model, head, images)  # the model in the place of a net
    torch.testing.assert_close(through_head, after, atol=1e-5, rtol=1e-5)
    found = model.best_leaf(images)
    assert (found.leaf.numpy() == predict(before, tree)).all()


@pytest.mark.arithmetic
@QUICK
@given(tree=trees(25, 2), seed=SEEDS, bits=st.sampled_from([None, 1.0, 0.05]))
def test_best_first_search_equals_exhaustive_evaluation(tree, seed, bits):
    """Also with ties: rounding to multiples of 20 makes equal and certain branches."""
    nets = {
        branch: Small(len(tree.children(branch)), seed + branch, bits)
        for branch in tree.internal.tolist()
    }
    model = DecoupledModel(tree, nets)
    images = torch.randn(70, 5, generator=generator(seed)) * (10 if bits == 0.05 else 1)
    log_probs = model.node_log_probs(images)
    found = model.best_leaf(images)
    assert (found.leaf.numpy() == predict(log_probs, tree)).all()
    assert torch.equal(found.log_prob, log_probs.gather(1, found.leaf[:, None])[:, 0])
    # exactly the branches whose node is likelier than the answer (or equal and before it) are run
    forks = torch.tensor([node for node in tree.internal if len(tree.children(node)) > 1]).long()
    if len(forks):
        of_fork = log_probs[:, forks]
        needed = (of_fork > found.log_prob[:, None]) | (
            (of_fork == found.log_prob[:, None]) & (forks < found.leaf[:, None])
        )
        assert torch.equal(found.branches, needed.sum(1))
    else:
        assert (found.branches == 0).all()


@pytest.mark.arithmetic
def test_search_runs_fewer_branches_and_does_not_depend_on_the_batch():
    tree = dataset_taxonomy("cifar100")
    head = CondSoftmax(tree)
    net = Small(head.num_outputs, 3)
    model = DecoupledModel(tree, decouple(net, head))
    images = torch.randn(300, 5, generator=generator(5))
    found = model.best_leaf(images)
    assert found.branches.double().mean() < 0.5 * len(tree.internal)
    assert (found.branches >= 1).all()
    for some in (slice(0, 1), slice(17, 19), slice(40, 140)):
        part = model.best_leaf(images[some])
        assert torch.equal(part.leaf, found.leaf[some])
        assert torch.equal(part.log_prob, found.log_prob[some])
        assert torch.equal(part.branches, found.branches[some])
    assert len(model.best_leaf(images[:0]).leaf) == 0


def test_branches_own_their_features():
    head = CondSoftmax(TREE)
    net = build_net("cnn-32", head.num_outputs, generator=generator())
    branches = decouple(net, head)
    images = torch.randn(2, 3, 32, 32, generator=generator(1))
    before = net(images), branches[TREE.index("a")](images)
    root = branches[0]
    with torch.no_grad():
        for weight in root.parameters():
            weight.add_(1.0)
    assert torch.equal(net(images), before[0])
    assert torch.equal(branches[TREE.index("a")](images), before[1])
    assert sorted(branches) == [0, TREE.index("a")]
    assert root.head.weight.shape == (2, 1600)
    assert root.head.out_features == 2


TREE = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2"), ("a", "a3")])
NUMBER = {node: number for number, node in enumerate(TREE.ids)}
LABELS = torch.tensor([NUMBER[node] for node in ("a1", "b", "a", "r", "a3", "a")])


def test_branch_labels_by_hand():
    indices, targets = branch_dataset(TREE, LABELS, NUMBER["r"])
    assert indices.tolist() == [0, 1, 2, 4, 5]
    assert targets.tolist() == [0, 1, 0, 0, 0]
    indices, targets = branch_dataset(TREE, LABELS, NUMBER["a"])
    assert (indices.tolist(), targets.tolist()) == ([0, 4], [0, 2])
    knows_a1 = np.array([node in ("r", "a", "a1", "b") for node in TREE.ids])
    indices, targets = branch_dataset(TREE, LABELS, NUMBER["a"], "projection", knows_a1)
    assert indices.tolist() == [0, 2, 4, 5]
    assert targets.tolist() == [0, TOGETHER, 2, TOGETHER]
    logits = torch.tensor([[0.2, 0.3, 0.5]]).log().expand(4, -1)
    losses = branch_losses(logits, targets, torch.tensor([False, True, True]))
    assert losses.neg().exp().tolist() == pytest.approx([0.2, 0.8, 0.5, 0.8])
    lazy = branch_losses(logits, targets, torch.tensor([False, True, True]), laziness=0.5)
    assert lazy.neg().exp().tolist() == pytest.approx([0.2, 0.9, 0.5, 0.9])
    for known in (np.ones(len(TREE), dtype=bool), np.array([n in "rab" for n in TREE.ids])):
        indices, _ = branch_dataset(TREE, LABELS, NUMBER["a"], "projection", known)
        assert indices.tolist() == [0, 4]  # all or none unknown: "a" says nothing here


def test_a_client_that_knows_every_child_has_finite_gradients():
    logits = torch.zeros(2, 3, requires_grad=True)
    losses = branch_losses(logits, torch.tensor([0, 2]), torch.zeros(3, dtype=torch.bool))
    losses.sum().backward()
    by_hand = torch.tensor([[-2.0, 1.0, 1.0], [1.0, 1.0, -2.0]]) / 3
    torch.testing.assert_close(logits.grad, by_hand)


def test_refusals():
    head = CondSoftmax(TREE)
    for make, message in {
        lambda: branch_dataset(TREE, LABELS, NUMBER["b"]): "'b' is a leaf",
        lambda: branch_dataset(TREE, LABELS, 0, "full"): "no supervision 'full'",
        lambda: branch_dataset(TREE, LABELS, 0, "projection"): "needs to know",
        lambda: branch_losses(torch.zeros(1, 2), torch.tensor([TOGETHER])): "need the mask",
        lambda: decouple(Small(5, 0), FlatSoftmax(TREE)): "only cond-softmax",
        lambda: decouple(Small(4, 0), head): "with 5 outputs",
        lambda: decouple(nn.Linear(3, 5), head): "no module 'head'",
        lambda: DecoupledModel(TREE, {0: Small(2, 0)}): "every internal node",
    }.items():
        with pytest.raises(HeadError, match=message):
            make()

"""What a client learns about its labellers: from labels and weights alone, the same every time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgrain.federated import LocalSettings, TrainingSettings
from fedgrain.heads import branch_losses, supervise
from fedgrain.knowledge.labeller import LabellerModel
from small_federation import EVERYTHING, NODE, TREE, engine, federation, known

LABELS = ["a1", "a1", "a2", "a2", "a", "a", "a", "b", "b1", "b1", "r", "c", "c", "a1"]
SETTINGS = TrainingSettings(join_ratio=1.0, local=LocalSettings(lr=0.3, batch=len(LABELS)))


def trainer_for(head, knowledge=EVERYTHING, **model):
    sites = federation([LABELS], [knowledge])
    spec = {"head": head, "supervision": "learned", "branch_supervision": "learned", **model}
    return engine(sites, SETTINGS, **spec).trainer


def stirred(trainer):
    """Weights of a model that has an opinion."""
    generator = torch.Generator().manual_seed(1)
    return {
        name: value + 0.3 * torch.randn(value.shape, generator=generator)
        for name, value in trainer.model.initial.items()
    }


@pytest.mark.parametrize("head", ["flat-softmax", "ps-softmax", "cond-softmax"])
def test_a_round_is_a_step_on_the_likelihood_of_the_labels(head):
    """One batch: the step goes down the general loss under the T that EM found."""
    trainer = trainer_for(head)
    weights = stirred(trainer)
    found = trainer.label_reader(0).learned(weights)
    assert np.array_equal(found.known[0], known("a", "a1", "a2", "b", "b1", "c"))
    assert 0.1 < found.laziness[0] < 0.9  # three labels a, of which a3 explains a part
    update = trainer.train(1, 0, weights, None)
    net = trainer.model.net
    net.load_state_dict(weights)
    data = trainer.whole_data(0)
    supervised = supervise(trainer.model.head, "learned", writes=[found.writes(0)])
    loss = supervised.loss(net(data.source.batch(data.indices)), data.targets)
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    for (name, value), gradient in zip(net.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(update.state[name], value - 0.3 * gradient, atol=1e-5, rtol=0)


def test_a_client_that_starts_again_has_the_same_t_to_the_bit():
    """Nothing is kept, so nothing is lost: weights and labels decide."""
    one, two = trainer_for("flat-softmax"), trainer_for("flat-softmax")
    weights = stirred(one)
    one.train(1, 0, one.model.initial, None)  # one has a past, the other has just started
    mine, other = (t.label_reader(0).learned(weights) for t in (one, two))
    assert mine.laziness.tobytes() == other.laziness.tobytes()
    assert mine.writes(0).tobytes() == other.writes(0).tobytes()
    updates = [t.train(2, 0, weights, None).state for t in (one, two)]
    assert all(torch.equal(updates[0][name], updates[1][name]) for name in weights)


@pytest.mark.parametrize("head", ["flat-softmax", "cond-softmax"])
def test_it_uses_no_given_knowledge(head):
    knowing, unknowing = trainer_for(head), trainer_for(head, known())
    weights = stirred(knowing)
    one, two = (t.train(1, 0, weights, None).state for t in (knowing, unknowing))
    assert all(torch.equal(one[name], two[name]) for name in weights)
    if head == "cond-softmax":
        branch = NODE["a"]
        assert knowing.samples(0, branch) == unknowing.samples(0, branch) == 8
        assert torch.equal(knowing.has_children(0, branch), torch.ones(3, dtype=torch.bool))


def test_a_branch_learns_from_what_it_is_sent():
    """At branch a: EM by hand over its children, then a step on their likelihood."""
    trainer, branch = trainer_for("cond-softmax"), NODE["a"]
    weights = trainer.model.decouple(stirred(trainer))[branch]
    net, data = trainer.model.branch_nets[branch], trainer.branch_data(0, branch)
    update = trainer.train(1, 0, weights, branch)
    net.load_state_dict(weights)
    logits = net(data.source.batch(data.indices))
    probs = logits.softmax(1)[data.targets < 0].detach().double().numpy()
    assert probs.shape == (3, 3)
    laziness = 0.1
    for _ in range(500):  # a1 and a2 are known and were written five times in full
        weight = probs * [laziness, laziness, 1.0]
        early = (weight / weight.sum(1, keepdims=True))[:, :2].sum()
        laziness = (early + 1) / (early + 5 + 10)
    found = trainer.label_reader(0).at_branch(branch, weights)
    assert found.laziness[0] == pytest.approx(laziness, abs=1e-5)
    stops = torch.tensor([[laziness, laziness, 1.0]])
    loss = branch_losses(logits, data.targets, stops=stops).mean()
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    lr = SETTINGS.branch.lr
    for (name, value), gradient in zip(net.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(update.state[name], value - lr * gradient, atol=1e-6, rtol=0)


def test_min_count_is_what_makes_a_node_known():
    trainer = trainer_for("flat-softmax", min_count=3)
    assert np.array_equal(trainer.label_reader(0).known[0], known("a", "a1", "b"))


def test_a_client_with_only_full_or_only_coarse_labels_trains():
    for labels in (["a1", "a2"] * 3, ["a", "r"] * 3, ["a1"], []):
        sites = federation([labels, LABELS])
        settings = replace(SETTINGS, local=LocalSettings(lr=0.1, batch=4))
        for head in ("flat-softmax", "cond-softmax"):
            small = engine(sites, settings, head=head, supervision="learned")
            update = small.trainer.train(1, 0, small.model.initial, None)
            assert update.finite and update.samples == len(labels)


def test_what_is_learned_has_as_many_rows_as_labellers():
    model = LabellerModel(TREE, np.stack([known("a"), known("b", "b1")]), np.array([0.2, 0.4]))
    assert model.stops.shape == (2, len(TREE))
    assert model.stops[1, NODE["b1"]] == 0.4 and model.stops[0, NODE["b1"]] == 1.0
    assert model.stops[1, NODE["b"]] == 0.0 and model.stops[1, 0] == 0.0

"""What a client learns about its labellers: from labels and weights alone, the same every time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgrain.federated import LocalSettings, TrainingSettings
from fedgrain.heads import branch_losses, supervise
from fedgrain.knowledge.confusions import with_confusions
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
@pytest.mark.parametrize(("number", "trust"), [(5, 0.5), (10, 1.0), (300, 1.0)])
def test_a_round_is_a_step_on_the_likelihood_of_the_labels(head, number, trust):
    """One batch: the step goes down the general loss under the T that EM found."""
    trainer = trainer_for(head)
    weights = stirred(trainer)
    found = trainer.label_reader(0).learned(weights)
    assert found.known[0, [NODE[name] for name in ("a", "a1", "a2", "b", "b1", "c")]].all()
    assert 0.05 < found.lazy[0, NODE["a1"]] < 0.9  # of three labels a, a3 explains a part
    update = trainer.train(number, 0, weights, None)
    net = trainer.model.net
    net.load_state_dict(weights)
    data = trainer.whole_data(0)
    supervised = supervise(
        trainer.model.head, "learned", writes=[found.with_laziness(trust).writes(0)]
    )
    loss = supervised.loss(net(data.source.batch(data.indices)), data.targets)
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    for (name, value), gradient in zip(net.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(update.state[name], value - 0.3 * gradient, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("full", "coarse", "laziness", "weight"),
    [(1, 1, 0.9, 1.0), (1, 9, 0.9, 2.25), (2, 38, 0.9, 4.75), (1, 400, 0.8, 5.0), (1, 9, 0.0, 1.0)],
)
def test_full_labels_that_laziness_made_few_count_more(full, coarse, laziness, weight):
    """They make up a fifth of the loss, but none counts for more than laziness took."""
    sites = federation([["a1"] * full + ["a"] * coarse])
    small = engine(sites, SETTINGS, head="flat-softmax", supervision="learned")
    reader = small.trainer.label_reader(0)
    assert reader.full_weight(laziness) == pytest.approx(weight)
    found = reader.learned(small.model.initial).lazy[0, NODE["a1"]]
    _, data = reader.shared_out(1, small.model.initial)
    expected = [reader.full_weight(found)] * full + [1.0] * coarse
    torch.testing.assert_close(data.targets.sum(1), torch.tensor(expected, dtype=torch.float32))


def test_a_client_that_starts_again_has_the_same_t_to_the_bit():
    """Nothing is kept, so nothing is lost: weights and labels decide."""
    one, two = trainer_for("flat-softmax"), trainer_for("flat-softmax")
    weights = stirred(one)
    one.train(1, 0, one.model.initial, None)  # one has a past, the other has just started
    mine, other = (t.label_reader(0).learned(weights) for t in (one, two))
    assert mine.lazy.tobytes() == other.lazy.tobytes()
    assert mine.knows.tobytes() == other.knows.tobytes()
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
    passes, lazy, knows = np.array([3, 2, 0]), 0.1, np.array([0.99, 0.99, 0.05])  # a1, a2, a3
    for _ in range(200):
        weight = probs * lazy**knows
        stopped = (weight / weight.sum(1, keepdims=True)).sum(0)
        prior = (knows.sum() + 1) / 5
        lazy = (knows @ stopped + 1) / (knows @ (stopped + passes) + 10)
        yes, no = prior * lazy**stopped * (1 - lazy) ** passes, (1 - prior) * 0.01**passes
        knows = yes / (yes + no)
    found = trainer.label_reader(0).at_branch(branch, weights)
    children = TREE.children(branch)
    np.testing.assert_allclose(found.knows[0, children], knows, atol=2e-3)
    np.testing.assert_allclose(found.lazy[0, children], lazy, atol=2e-3)
    stops = torch.tensor(found.stops[:, children])
    loss = branch_losses(logits, data.targets, stops=stops).mean()
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    lr = SETTINGS.branch.lr
    for (name, value), gradient in zip(net.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(update.state[name], value - lr * gradient, atol=1e-6, rtol=0)


def test_a_client_with_only_full_or_only_coarse_labels_trains():
    for labels in (["a1", "a2"] * 3, ["a", "r"] * 3, ["a1"], []):
        sites = federation([labels, LABELS])
        settings = replace(SETTINGS, local=LocalSettings(lr=0.1, batch=4))
        for head in ("flat-softmax", "cond-softmax"):
            small = engine(sites, settings, head=head, supervision="learned")
            update = small.trainer.train(1, 0, small.model.initial, None)
            assert update.finite and update.samples == len(labels)


def test_fedmt_trains_on_full_labels_first_and_then_by_its_table():
    """After the warm-up a coarse label is shared out by P times the table of its own round."""
    trainer = trainer_for("flat-softmax", labeller="fedmt")
    weights, reader = stirred(trainer), trainer.label_reader(0)
    full = [number for number, label in enumerate(LABELS) if label not in ("a", "b", "r")]
    _, early = reader.shared_out(5, weights)
    assert early.indices.tolist() == full
    assert torch.equal(early.targets.argmax(1), torch.tensor([0, 0, 1, 1, 3, 3, 5, 5, 0]))
    _, late = reader.shared_out(6, weights)
    trainer.model.net.load_state_dict(weights)
    data = trainer.whole_data(0)
    probs = trainer.model.net(data.source.batch(data.indices)).softmax(1).detach()
    leaf, sure = probs.argmax(1), probs.amax(1) >= 0.5
    coarse = [number for number in range(len(LABELS)) if number not in full]
    for image in coarse:
        row = torch.empty(6)
        for column in range(6):
            seen = [LABELS[i] for i in coarse if leaf[i] == column and sure[i]]
            row[column] = seen.count(LABELS[image]) / len(seen) if seen else 1 / 3
        share = probs[image] * row
        if not row.any():
            below = {"a": [0, 1, 2], "b": [3, 4], "r": range(6)}[LABELS[image]]
            share = probs[image] * torch.tensor([float(c in below) for c in range(6)])
        torch.testing.assert_close(late.targets[image], share / share.sum(), atol=1e-5, rtol=0)
    update = trainer.train(6, 0, weights, None)
    assert update.finite and update.samples == len(LABELS)


def test_a_reader_of_confusions_moves_a_wrong_label_to_its_sibling():
    """Ten labels a1, one of an image the model takes for a2: most of it counts as a2."""
    labels = ["a1"] * 5 + ["a2"] * 5 + ["a3", "b", "a"]
    sites = federation([labels])
    spec = {"head": "flat-softmax", "supervision": "learned", "labeller": "siblings"}
    trainer = engine(sites, SETTINGS, **spec).trainer
    reader = trainer.label_reader(0)
    probs = np.full((13, 6), 0.01)
    probs[np.arange(13), [0] * 4 + [1] * 6 + [2, 3, 2]] = 0.95  # the fifth label a1 shows an a2
    share, found = reader.confused(probs / probs.sum(1, keepdims=True))
    assert 0.02 < share < 0.2 and found.known[0, NODE["a1"]]
    read = with_confusions(TREE, found.writes(0), np.unique(reader.part.labels), share)
    row = read.labels.tolist().index(NODE["a1"])
    weight = probs[4] * read.table[row]
    assert weight[1] > 0.3 * weight[0]
    weights = stirred(trainer)
    one, two = (trainer.train(30, 0, weights, None).state for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in weights)
    _, data = reader.shared_out(30, weights)
    full = torch.tensor([label not in ("a", "b") for label in labels])
    torch.testing.assert_close(data.targets[~full].sum(1), torch.ones(2))
    weight = reader.full_weight(0.0)
    torch.testing.assert_close(data.targets[full].sum(1), torch.full((11,), weight))

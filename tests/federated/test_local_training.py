"""Local training against the formulas, written out in NumPy for a net of one layer."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedgrain.engines import train_task
from fedgrain.federated import LocalSettings, Task, TrainingData, TrainingSettings, train_locally
from fedgrain.federated.local_training import _Descent, crop_and_flip, gradients_of
from fedgrain.federated.schedules import Schedule
from fedgrain.randomness import numpy_generator
from fedgrain.trunks.tail import Tail
from small_federation import TREE, engine, federation

LABELS = ["a1", "b2", "c", "a3", "a2", "b1", "c", "a1", "b2", "a3"]


def cross_entropy_gradients(x, classes, weight, bias) -> list[np.ndarray]:
    scores = x @ weight.T + bias
    share = np.exp(scores - scores.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    share[np.arange(len(x)), classes] -= 1
    return [share.T @ x / len(x), share.mean(0)]


def softmax_regression(
    features, classes, weight, bias, order, local: LocalSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Plain SGD on CE over leaves: v <- momentum v + gradient, w <- w - lr v; in float64."""
    start, speed = (weight.copy(), bias.copy()), [0.0, 0.0]
    weights = [weight.copy(), bias.copy()]
    for rows in order:
        gradients = cross_entropy_gradients(features[rows], classes[rows], *weights)
        if local.sam:  # at w + rho g / |g| (Foret et al. 2021)
            length = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
            uphill = [w + local.sam * g / length for w, g in zip(weights, gradients, strict=True)]
            gradients = cross_entropy_gradients(features[rows], classes[rows], *uphill)
        for number, gradient in enumerate(gradients):
            gradient = gradient + local.weight_decay * weights[number]
            gradient = gradient + local.proximal * (weights[number] - start[number])
            speed[number] = local.momentum * speed[number] + gradient
            weights[number] = weights[number] - local.lr * speed[number]
    return weights[0], weights[1]


def seen_by_the_layer(sites, rows) -> np.ndarray:
    """Normalise by 0.5 and 0.25, and average 4 x 4 blocks, channel by channel."""
    pixels = (sites.source.images[rows] / 255 - 0.5) / 0.25
    blocks = pixels.reshape(len(rows), 8, 4, 8, 4, 3).mean((2, 4))  # [rows, 8, 8, 3]
    return blocks.transpose(0, 3, 1, 2).reshape(len(rows), -1)


@pytest.mark.parametrize(
    "extra",
    [{}, {"momentum": 0.9}, {"weight_decay": 0.1}, {"proximal": 0.5}, {"sam": 0.7}],
    ids=["plain", "momentum", "weight decay", "FedProx", "SAM"],
)
def test_local_training_is_sgd_written_by_hand(extra) -> None:
    local = LocalSettings(lr=0.3, batch=4, epochs=3, **extra)
    sites = federation([LABELS])
    settings = TrainingSettings(local=local)
    trainer = engine(sites, settings, head="flat-softmax").trainer
    start = {name: value.double().numpy() for name, value in trainer.model.initial.items()}
    update = trainer.train(7, 0, trainer.model.initial, None)

    generator = numpy_generator(settings.seed, "local training", 7, 0)
    generator.integers(2**63 - 1)  # the seed of dropout comes first
    orders = [generator.permutation(10) for _ in range(3)]
    batches = [order[i : i + 4] for order in orders for i in (0, 4, 8)]  # the partial one is kept
    leaf = {TREE.ids[node]: number for number, node in enumerate(TREE.leaves)}
    weight, bias = softmax_regression(
        seen_by_the_layer(sites, np.arange(10)),
        np.array([leaf[label] for label in LABELS]),
        start["head.weight"],
        start["head.bias"],
        batches,
        local,
    )
    assert update.samples == 10
    assert update.steps == 9
    np.testing.assert_allclose(update.state["head.weight"], weight, atol=2e-6)
    np.testing.assert_allclose(update.state["head.bias"], bias, atol=2e-6)


def test_the_loss_told_is_the_mean_over_the_last_epoch() -> None:
    sites = federation([LABELS])
    settings = TrainingSettings(local=LocalSettings(lr=0.0, batch=4, epochs=2))
    trainer = engine(sites, settings).trainer
    update = trainer.train(1, 0, trainer.model.initial, None)
    whole = trainer.whole_data(0)
    with torch.no_grad():
        logits = trainer.model.net(whole.source.batch(whole.indices))
        expected = trainer.model.head.loss(logits, whole.targets)
    assert update.loss == pytest.approx(float(expected), abs=1e-6)


def test_counting_samples_does_not_keep_them() -> None:
    """The server asks everyone; with many clients their data would add up."""
    trainer = engine(federation([LABELS, LABELS[:4]]), TrainingSettings()).trainer
    for branch in (None, 0):  # everything is below the root
        assert [trainer.samples(client, branch) for client in (0, 1)] == [10, 4]
    assert trainer.children_with_data(0) >= 2
    assert trainer.whole_data.cache_info().currsize == 0
    assert trainer.branch_data.cache_info().currsize == 0
    assert trainer.supervised(1) is trainer.supervised(0)


def test_a_task_gives_the_same_bits_whatever_came_before() -> None:
    sites = federation([LABELS, LABELS[::-1]])
    settings = TrainingSettings(local=LocalSettings(batch=3), branch=LocalSettings(batch=3))
    first, second = (engine(sites, settings, net="own_parts:SmallNet").trainer for _ in range(2))
    start, again = first.model.initial, second.model.initial
    assert all(torch.equal(start[name], again[name]) for name in start)
    branches = first.model.decouple(start)
    tasks = [
        Task(3, 0, start),
        Task(3, 1, start),
        Task(1, 0, branches[0], 0),
        Task(1, 1, branches[1], 1),
    ]
    forwards = [train_task(first, task) for task in tasks]
    torch.manual_seed(1)  # the global state must not matter
    backwards = [train_task(second, pickle.loads(pickle.dumps(task))) for task in tasks[::-1]]
    for one, other in zip(forwards, backwards[::-1], strict=True):
        sent = pickle.loads(pickle.dumps(other))
        assert one.loss == sent.loss
        assert list(one.state) == list(sent.state)
        assert all(torch.equal(one.state[name], sent.state[name]) for name in one.state)


def test_a_net_that_draws_from_the_global_state_gets_its_own() -> None:
    trainer = engine(
        federation([LABELS]), TrainingSettings(), net="own_parts:FunctionalDropoutNet"
    ).trainer
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        states.append(trainer.train(1, 0, trainer.model.initial, None).state)
        assert torch.equal(torch.get_rng_state(), torch.manual_seed(seed).get_state())
    other = trainer.train(2, 0, trainer.model.initial, None).state
    assert all(torch.equal(states[0][name], states[1][name]) for name in other)
    assert not all(torch.equal(states[0][name], other[name]) for name in other)


def test_training_does_not_touch_the_weights_it_starts_from() -> None:
    trainer = engine(federation([LABELS]), TrainingSettings(), net="own_parts:SmallNet").trainer
    before = {name: value.clone() for name, value in trainer.model.initial.items()}
    update = trainer.train(1, 0, trainer.model.initial, None)
    assert all(torch.equal(before[name], trainer.model.initial[name]) for name in before)
    assert not torch.equal(before["head.weight"], update.state["head.weight"])


def test_crop_and_flip_is_a_shift_and_a_mirror_image_by_image() -> None:
    images = torch.randn(9, 3, 11, 8, generator=torch.Generator().manual_seed(3))
    moved = crop_and_flip(images, np.random.default_rng(4))
    draws = np.random.default_rng(4)
    shifts, mirrors = draws.integers(0, 9, size=(2, 9)), draws.integers(0, 2, size=9)
    assert set(mirrors) == {0, 1}
    for image in range(9):
        for row in range(11):
            for column in range(8):
                source = 7 - column if mirrors[image] else column
                y, x = row + shifts[0, image] - 4, source + shifts[1, image] - 4
                inside = 0 <= y < 11 and 0 <= x < 8
                expected = images[image, :, y, x] if inside else torch.zeros(3)
                assert torch.equal(moved[image, :, row, column], expected)


def test_crop_and_flip_is_used_when_asked_for() -> None:
    states = []
    for asked in (False, True):
        settings = TrainingSettings(local=LocalSettings(crop_and_flip=asked))
        trainer = engine(federation([LABELS]), settings).trainer
        states.append(trainer.train(1, 0, trainer.model.initial, None).state["head.weight"])
    assert not torch.equal(*states)


def test_no_samples_leave_the_weights_alone() -> None:
    trainer = engine(federation([LABELS, []]), TrainingSettings()).trainer
    data = TrainingData(
        trainer.federation.source, np.empty(0, np.int64), torch.empty(0, dtype=torch.int64)
    )
    update = train_locally(
        trainer.model.net,
        trainer.model.initial,
        trainer.model.head.loss,
        data,
        LocalSettings(),
        np.random.default_rng(0),
    )
    assert update.samples == update.steps == 0
    assert all(
        torch.equal(update.state[n], trainer.model.initial[n]) for n in trainer.model.initial
    )


@pytest.mark.parametrize(
    ("name", "rate"),
    [("step", 0.3 * 0.5**2), ("cosine", 0.3 * (1 + np.cos(np.pi * 4 / 8)) / 2)],
)
def test_a_schedule_sets_the_rate_of_a_round(name, rate) -> None:
    """Round 5 of 8 is a round with a constant rate; branches go by their cycles."""
    schedule, local = Schedule(name, every=2, factor=0.5), LocalSettings(lr=0.3, batch=4)
    settings = TrainingSettings(local=local, branch=local, rounds=8, cycles=8, schedule=schedule)
    scheduled = engine(federation([LABELS]), settings).trainer
    fixed = replace(local, lr=rate)
    constant = engine(federation([LABELS]), TrainingSettings(local=fixed, branch=fixed)).trainer
    start = scheduled.model.initial
    for branch, weights in ((None, start), (0, scheduled.model.decouple(start)[0])):
        one, other = (t.train(5, 0, weights, branch) for t in (scheduled, constant))
        for value in one.state:
            torch.testing.assert_close(one.state[value], other.state[value])
        first = scheduled.train(1, 0, weights, branch)
        assert not torch.equal(first.state["head.weight"], one.state["head.weight"])


def test_sam_counts_a_batch_once_in_the_buffers() -> None:
    """With rate 0 only the BatchNorm's statistics move, as without SAM."""
    states = []
    for sam in (0.0, 0.5):
        settings = TrainingSettings(local=LocalSettings(lr=0.0, batch=10, sam=sam))
        trainer = engine(federation([LABELS]), settings, net="own_parts:SmallNet").trainer
        states.append(trainer.train(1, 0, trainer.model.initial, None).state)
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert any(not torch.equal(v, trainer.model.initial[n]) for n, v in states[1].items())


@pytest.mark.arithmetic
@pytest.mark.parametrize("outputs, features, batch", [(100, 1280, 32), (7, 33, 5), (16, 64, 1)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_one_layer_trains_to_the_bits_of_autograd_and_torchs_sgd(
    outputs, features, batch, weight_decay
) -> None:
    draw = torch.Generator().manual_seed(3)
    layer = nn.Linear(features, outputs)
    for weight in layer.parameters():
        nn.init.normal_(weight, generator=draw)
    inputs = torch.randn(batch, features, generator=draw)
    classes = torch.randint(outputs, (batch,), generator=draw)
    plain = copy.deepcopy(layer)
    tail = Tail(None, features, None, outputs)
    tail.head = layer
    parameters = list(tail.parameters())
    cost, gradients = gradients_of(tail, parameters, functional.cross_entropy, inputs, classes)
    _Descent(parameters, LocalSettings(lr=0.03, weight_decay=weight_decay)).step(gradients)
    optimizer = torch.optim.SGD(plain.parameters(), 0.03, weight_decay=weight_decay, fused=True)
    expected = functional.cross_entropy(plain(inputs), classes)
    expected.backward()
    optimizer.step()
    assert torch.equal(cost, expected)
    for mine, theirs in zip(parameters, plain.parameters(), strict=True):
        assert torch.equal(mine, theirs)


class NetWithThatName(nn.Module):
    """A user's net that calls a part of it as we call a net that is one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.below = nn.Linear(4, 3)
        self.only_layer = nn.Linear(3, 2)

    def forward(self, inputs):
        return self.only_layer(self.below(inputs).relu())


def test_a_net_with_a_part_of_that_name_is_not_taken_for_it():
    net = NetWithThatName()
    parameters = list(net.parameters())
    inputs, classes = torch.ones(2, 4), torch.tensor([0, 1])
    cost, gradients = gradients_of(net, parameters, functional.cross_entropy, inputs, classes)
    expected = functional.cross_entropy(net(inputs), classes)
    assert torch.equal(cost, expected)
    for mine, theirs in zip(gradients, torch.autograd.grad(expected, parameters), strict=True):
        assert torch.equal(mine, theirs)

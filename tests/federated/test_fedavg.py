"""FedAvg: one client, identical clients, weights, clients left out, faults."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgrain.engines import client_trainer
from fedgrain.errors import DivergedError, FederationError, HeadError
from fedgrain.federated import EarlyStopping, LabelledPart, LocalSettings, TrainingSettings
from fedgrain.federated.fedavg import FedAvg, FedAvgState
from fedgrain.federated.sampling import joining, sample
from fedgrain.heads import HEADS
from fedgrain.heads.chunks import run_in_chunks
from fedgrain.scoring.validation_score import ValidationScore
from small_federation import TREE, VALIDATION, Recording, engine, federation, known

LABELS = ["a1", "b2", "c", "a3", "a2", "b1", "c", "a1", "b2", "a3"]
EVERYONE = TrainingSettings(join_ratio=1.0, local=LocalSettings(lr=0.2, batch=4))


def rounds(small: Recording, settings: TrainingSettings, count: int) -> FedAvgState:
    state = FedAvg(settings).init(small.model.initial)
    for _ in range(count):
        state, _ = FedAvg(settings).apply(state, small)
    return state


def test_one_client_is_plain_sgd() -> None:
    """The mean and the server add nothing; that local training is SGD is in test_client.py."""
    small = engine(federation([LABELS]), EVERYONE)
    weights = small.model.initial
    for number in (1, 2):
        weights = small.trainer.train(number, 0, weights, None).state
    final = rounds(small, EVERYONE, 2).weights
    assert all(torch.equal(final[name], weights[name]) for name in weights)


@pytest.mark.parametrize("head", ["flat-softmax", "cond-softmax", "softmax-margin"])
def test_identical_clients_with_full_batches_equal_one_client(head: str) -> None:
    settings = replace(EVERYONE, local=LocalSettings(lr=0.2, batch=len(LABELS), epochs=2))
    alone = rounds(engine(federation([LABELS]), settings, head=head), settings, 3)
    three = federation([LABELS] * 3, same_images=True)
    together = rounds(engine(three, settings, head=head), settings, 3)
    for name, value in alone.weights.items():
        torch.testing.assert_close(together.weights[name], value, atol=1e-6, rtol=0)


def test_clients_weigh_as_much_as_samples_enter_their_loss() -> None:
    """flat-softmax drops coarse labels: 2, 3 and 5 samples are left of 4, 4 and 5."""
    labels = [["a1", "b2", "a", "b"], ["c", "a3", "b1", "r"], ["c", "a1", "a2", "b1", "b2"]]
    small = engine(federation(labels), EVERYONE, head="flat-softmax")
    start = small.model.initial
    trained = [small.trainer.train(1, client, start, None).state for client in range(3)]
    state, report = FedAvg(EVERYONE).apply(FedAvg(EVERYONE).init(start), small)
    assert [line["samples"] for line in report.clients] == [2, 3, 5]
    for name, value in state.weights.items():
        by_hand = 0.2 * trained[0][name] + 0.3 * trained[1][name] + 0.5 * trained[2][name]
        torch.testing.assert_close(value, by_hand, atol=1e-6, rtol=0)


def test_a_client_without_entering_samples_is_skipped() -> None:
    labels = [["a", "b", "r"], ["a1", "b2"], [], ["c"]]
    small = engine(federation(labels), EVERYONE, head="flat-softmax")
    _, report = FedAvg(EVERYONE).apply(FedAvg(EVERYONE).init(small.model.initial), small)
    assert [task.client for task in small.tasks] == [1, 3]
    assert [line["client"] for line in report.clients] == ["site 1", "site 3"]
    whole = engine(federation(labels), EVERYONE, head="flat-softmax", supervision="marginal")
    FedAvg(EVERYONE).apply(FedAvg(EVERYONE).init(whole.model.initial), whole)
    assert [task.client for task in whole.tasks] == [0, 1, 3]


def test_nobody_with_a_sample() -> None:
    small = engine(federation([["a"], ["b", "r"]]), EVERYONE, head="flat-softmax")
    with pytest.raises(FederationError, match="no client has a sample that enters the loss"):
        FedAvg(EVERYONE).apply(FedAvg(EVERYONE).init(small.model.initial), small)


def test_a_client_that_sends_nan_loses_its_update_and_is_told() -> None:
    labels = [["a2", "b1"], ["a1", "b2"], ["c", "b1", "a3"]]  # a1 makes the loss not a number
    small = engine(federation(labels), EVERYONE, head="own_parts:ExplodingHead")
    start = small.model.initial
    one, three = (small.trainer.train(1, client, start, None).state for client in (0, 2))
    state, report = FedAvg(EVERYONE).apply(FedAvg(EVERYONE).init(start), small)
    assert report.faults == [
        {
            "client": "site 1",
            "kind": "not-finite",
            "fault": "its update holds NaN or infinite numbers",
        }
    ]
    for name, value in state.weights.items():
        torch.testing.assert_close(value, 0.4 * one[name] + 0.6 * three[name], atol=1e-6, rtol=0)


def test_too_few_updates() -> None:
    broken = engine(federation([["a1"], ["c"]]), EVERYONE, head="own_parts:ExplodingHead")
    start = FedAvg(EVERYONE).init(broken.model.initial)
    with pytest.raises(FederationError, match=r"round 1: 1 clients .* site 0 failed with: its upd"):
        FedAvg(replace(EVERYONE, min_clients=2)).apply(start, broken)
    few = engine(federation([["b1"], ["c"]]), EVERYONE)
    with pytest.raises(FederationError, match="but min_clients is 3; lower it"):
        FedAvg(replace(EVERYONE, min_clients=3)).apply(start, few)


def test_batch_norm_is_averaged_and_its_counter_is_the_servers() -> None:
    labels = [["a1", "b2"], ["c", "a3", "b1"], ["c", "a1", "a2", "b1", "b2"]]
    small = engine(federation(labels), EVERYONE, net="own_parts:SmallNet")
    start = small.model.initial
    trained = [small.trainer.train(1, client, start, None).state for client in range(3)]
    state, _ = FedAvg(EVERYONE).apply(FedAvg(EVERYONE).init(start), small)
    assert all(t["features.1.num_batches_tracked"] > 0 for t in trained)
    assert state.weights["features.1.num_batches_tracked"] == 0
    for name in ("features.1.running_mean", "features.1.running_var"):
        by_hand = 0.2 * trained[0][name] + 0.3 * trained[1][name] + 0.5 * trained[2][name]
        torch.testing.assert_close(state.weights[name], by_hand, atol=1e-6, rtol=0)
    assert small.parameters == {
        *("features.0.weight", "features.0.bias", "features.1.weight", "features.1.bias"),
        *("head.weight", "head.bias"),
    }


def scored(hf: float) -> ValidationScore:
    return ValidationScore(hf, 1, hf, 1, hf, 1)


def test_being_vague_ends_training_no_later_and_is_not_kept() -> None:
    """HF after cutting back grows, while that over labels that tell something falls."""
    settings = replace(EVERYONE, rounds=9, stopping=EarlyStopping(patience=2))
    small = engine(federation([LABELS]), settings)
    scores = [ValidationScore(hf, 10, told, 2, told, 4) for hf, told in ((0.5, 0.4), (0.6, 0.5),
              (0.9, 0.1), (0.95, 0.05))]  # fmt: skip
    left = iter(scores)
    small.validate = lambda weights: next(left)
    algorithm = FedAvg(settings)
    state, weights = algorithm.init(small.model.initial), []
    while not algorithm.finished(state, small):
        state, _ = algorithm.apply(state, small)
        weights.append(state.weights)
    assert state.round == 4 and state.best is weights[1]
    final = algorithm.final_model(algorithm.decode(algorithm.encode(state)), small)
    assert final.validation == scores[1]


def test_a_checkpoint_of_an_older_version_goes_on_by_its_own_measure() -> None:
    algorithm, small = FedAvg(EVERYONE), engine(federation([LABELS]), EVERYONE)
    stored = algorithm.encode(rounds(small, EVERYONE, 1))
    del stored.about["score"], stored.about["stopping"]["measure"]
    state = algorithm.decode(stored)
    assert state.stopping.measure == "hf"
    assert algorithm.final_model(state, small).validation.hf == state.stopping.best
    for coarse, improved in ((0.99, True), (0.2, False)):
        small.validate = lambda weights, hf=coarse: ValidationScore(hf, 10, 0.0, 2, 0.0, 4)
        state, _ = algorithm.apply(state, small)
        assert state.stopping.improved == improved


def test_best_weights_are_kept_and_patience_ends_it() -> None:
    settings = replace(EVERYONE, rounds=50, stopping=EarlyStopping(patience=2))
    small = engine(federation([LABELS]), settings)
    scores = iter([0.2, 0.5, 0.5, 0.4, 0.9])
    small.validate = lambda weights: scored(next(scores))
    state, weights = FedAvg(settings).init(small.model.initial), []
    while not FedAvg(settings).finished(state, small):
        state, _ = FedAvg(settings).apply(state, small)
        weights.append(state.weights)
    assert state.round == 4
    assert state.stopping.best == 0.5
    assert state.best is weights[1]
    assert FedAvg(settings).finished(replace(state, round=50, stopping=EarlyStopping()), small)


def test_the_mean_over_rounds_is_validated_and_kept_and_training_goes_on_without_it() -> None:
    plain = replace(EVERYONE, rounds=5)
    settings = replace(plain, average_rounds=3)
    small = engine(federation([LABELS, LABELS[:4]]), settings)
    validated = []
    small.validate = lambda weights: validated.append(weights) or scored(len(validated) / 10)
    state, history = FedAvg(settings).init(small.model.initial), []
    for _ in range(5):
        state, _ = FedAvg(settings).apply(state, small)
        history.append(state.weights)
    untouched = rounds(engine(federation([LABELS, LABELS[:4]]), plain), plain, 5)
    for name, value in untouched.weights.items():
        assert torch.equal(state.weights[name], value)
        mean = sum(weights[name] for weights in history[:3]) / 3
        torch.testing.assert_close(validated[2][name], mean, atol=1e-6, rtol=1e-5)
        for newest, found in zip(history[3:], validated[3:], strict=True):
            mean = mean + (newest[name] - mean) / 3
            torch.testing.assert_close(found[name], mean, atol=1e-6, rtol=1e-5)
        assert torch.equal(state.best[name], validated[4][name])


def test_labels_shared_out_once_a_round_take_the_same_first_step() -> None:
    """With one batch a round the anchor is where the step is made; with more it is not."""
    labels = ["a1", "b", "r", "a", "a", "b", "a1", "r"]
    knowing = [known("a", "a1", "b")]
    for batch, same in ((8, True), (2, False)):
        settings = replace(EVERYONE, local=LocalSettings(lr=0.2, batch=batch))
        final = [
            rounds(
                engine(
                    federation([labels], knowing), settings, head="flat-softmax",
                    supervision="projection", responsibilities=when,
                ),
                settings, 2,
            ).weights
            for when in ("step", "round")
        ]  # fmt: skip
        close = all(torch.allclose(final[0][n], final[1][n], atol=1e-6) for n in final[0])
        assert close == same


def test_labels_that_are_leaves_are_shared_out_without_the_model(monkeypatch) -> None:
    asked = []

    def counted(net, images):
        asked.append(len(images))
        return run_in_chunks(net, images)

    monkeypatch.setattr(client_trainer, "run_in_chunks", counted)
    for labels, knowing, asks in (
        (["a1", "b1", "c"], known(*TREE.ids), []),
        (["a1", "b", "c"], known("a", "a1", "b", "c"), [3]),
    ):
        asked.clear()
        parts = {"head": "flat-softmax", "supervision": "projection", "responsibilities": "round"}
        rounds(engine(federation([labels], [knowing]), EVERYONE, **parts), EVERYONE, 1)
        assert asked == asks


def test_divergence_is_told_apart_from_other_faults() -> None:
    settings = replace(EVERYONE, local=LocalSettings(lr=1e6, batch=4), rounds=9)
    with pytest.raises(DivergedError, match="try a lower learning rate"):
        rounds(engine(federation([LABELS]), settings), settings, 9)


def test_who_joins() -> None:
    assert [joining(10, 0.5), joining(10, 0.4), joining(5, 0.5), joining(3, 0.1)] == [5, 4, 3, 1]
    draws = [sample(range(2, 12), 5, 47, "clients of a round", number) for number in range(200)]
    assert all(draw == sorted(set(draw)) and len(draw) == 5 for draw in draws)
    assert draws == [
        sample(range(2, 12), 5, 47, "clients of a round", number) for number in range(200)
    ]
    shares = [sum(client in draw for draw in draws) / 200 for client in range(2, 12)]
    assert 0.35 < min(shares) < max(shares) < 0.65
    assert sample([7, 3], 5, 47, "clients of a round", 1) == [3, 7]


def test_server_validation_is_the_mean_hf() -> None:
    small = engine(federation([LABELS]), EVERYONE)
    answer = ["a1", "a1", "b1", "b1", "c", "c"] * 2
    tree = small.trainer.federation.taxonomy
    small.validator.predict_leaves = lambda weights, rows: [tree.index(node) for node in answer]
    by_hand = {("a2", "a1"): 0.5, ("a3", "b1"): 0.0, ("b2", "c"): 0.0}
    pairs = zip(VALIDATION, answer, strict=True)
    expected = [1.0 if truth == said else by_hand[truth, said] for truth, said in pairs]
    assert small.validate({}).hf == pytest.approx(sum(expected) / 12)


@pytest.mark.parametrize("wrong", [-1, len(TREE)])
@pytest.mark.parametrize("whose", ["train", "validation", "server"])
def test_labels_outside_the_tree_are_refused_as_they_come_in(wrong: int, whose: str) -> None:
    """Once per data set: five of six losses would train on them without a word."""
    good = federation([["a1", "b1"]] * 2, client_validation=[["a1"]] * 2)
    bad = LabelledPart(np.arange(2), np.array([0, wrong], np.int32))
    clients, server = list(good.clients), None
    if whose == "server":
        server, name = bad, "the server's validation labels"
    else:
        clients[1] = replace(clients[1], **{whose: bad})
        name = f"the {'validation ' * (whose == 'validation')}labels of site 1"
    with pytest.raises(HeadError, match=rf"^{name} must be .* but sample 1 has {wrong};"):
        replace(good, clients=tuple(clients), validation=server)


@pytest.mark.parametrize("head", sorted(HEADS))
def test_clients_may_hold_labels_as_int32(head: str) -> None:
    sites = federation([["a1", "b1", "a", "c"]] * 2)
    narrow = tuple(
        replace(client, train=replace(client.train, labels=client.train.labels.astype(np.int32)))
        for client in sites.clients
    )
    updates = []
    for some in (sites, replace(sites, clients=narrow)):
        trainer = engine(some, EVERYONE, head=head).trainer
        updates.append(trainer.train(1, 0, trainer.model.initial, None))
    for name, weights in updates[0].state.items():
        assert torch.equal(weights, updates[1].state[name])

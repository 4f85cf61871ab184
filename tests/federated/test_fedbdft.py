"""FedBDFT: one branch at a time, gamma, weights |D_e|, what is never trained, the two stages."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgrain.errors import DivergedError, FederationError
from fedgrain.federated import Client, EarlyStopping, LocalSettings, TrainingSettings
from fedgrain.federated.averaging import State
from fedgrain.federated.fedbdft import BranchesState, FedBDFT
from fedgrain.federated.local_training import Update
from fedgrain.heads import TOGETHER
from small_federation import NODE, Recording, engine, federation, known

ROOT, A, B = NODE["r"], NODE["a"], NODE["b"]
TRAINING = TrainingSettings(
    join_ratio=1.0,
    cycles=3,
    branch=LocalSettings(lr=0.2, batch=4),
    stopping=EarlyStopping(patience=2),
    min_branch_samples=8,
)


def start(small: Recording, settings: TrainingSettings = TRAINING) -> BranchesState:
    trainer = small.trainer
    return FedBDFT(settings).decoupled(trainer.model.decouple(trainer.model.initial), small)


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_decoupling_keeps_features_and_the_rows_of_the_children() -> None:
    small = engine(federation([["a1"]]), TRAINING)
    weights, branches = small.model.initial, start(small).branches
    assert list(branches) == [ROOT, A, B]
    for e, rows in ((ROOT, ["a", "b", "c"]), (A, ["a1", "a2", "a3"]), (B, ["b1", "b2"])):
        outputs = [NODE[name] - 1 for name in rows]  # cond-softmax has no output for the root
        assert torch.equal(branches[e].weights["head.weight"], weights["head.weight"][outputs])
        assert torch.equal(branches[e].weights["head.bias"], weights["head.bias"][outputs])


def test_a_round_changes_only_its_branch() -> None:
    """Below a lie 8 samples, below b 2 and below the root 8: then the root's patience is over."""
    small = engine(federation([["a1", "a2", "a3", "a1", "a2", "a3", "a1", "a2"]]), TRAINING)
    before = start(small)
    tired = replace(before.branches[ROOT], stopping=EarlyStopping(patience=1, waited=1))
    before = BranchesState(0, {**before.branches, ROOT: tired})
    copies = {
        e: {name: value.clone() for name, value in branch.weights.items()}
        for e, branch in before.branches.items()
    }
    after, report = FedBDFT(TRAINING).apply(before, small)
    assert [(task.branch, task.client) for task in small.tasks] == [(A, 0)]
    assert [line["branch"] for line in report.branches] == ["a"]
    assert not equal(after.branches[A].weights, copies[A])
    assert after.branches[A].rounds == 1
    for e in (ROOT, B):
        assert equal(after.branches[e].weights, copies[e])
        assert equal(after.branches[e].best, copies[e])
        assert after.branches[e].rounds == 0
    model = small.model.decoupled_model({e: b.weights for e, b in after.branches.items()})
    image = small.trainer.federation.source.batch(np.array([1000]))
    log_probs = model.node_log_probs(image)[0]
    fresh = engine(federation([["a1"]]), TRAINING).model
    old = fresh.head.node_log_probs(fresh.net(image))[0]
    moved = [name for name in NODE if abs(log_probs[NODE[name]] - old[NODE[name]]) > 1e-6]
    assert sorted(moved) == ["a1", "a2", "a3"]


def test_weights_are_proportional_to_the_samples_of_the_branch() -> None:
    """|D_a| is 8, 12 and 20 by hand: labels below a; a itself and b do not count (paper)."""
    labels = [
        ["a1", "a2"] * 4 + ["a"] * 9 + ["b1"],
        ["a1", "a3", "a2"] * 4 + ["c"] * 5,
        ["a2", "a3"] * 10 + ["b", "r"],
    ]
    small = engine(federation(labels), TRAINING)
    before = start(small)
    weights = before.branches[A].weights
    trained = [small.trainer.train(1, client, weights, A).state for client in range(3)]
    after, report = FedBDFT(TRAINING).apply(before, small)
    line = next(line for line in report.branches if line["branch"] == "a")
    assert [client["samples"] for client in line["clients"]] == [8, 12, 20]
    assert all(np.isfinite(client["loss"]) for client in line["clients"])
    for name, value in after.branches[A].weights.items():
        by_hand = 0.2 * trained[0][name] + 0.3 * trained[1][name] + 0.5 * trained[2][name]
        torch.testing.assert_close(value, by_hand, atol=1e-6, rtol=0)


def test_only_clients_with_gamma_samples_train_a_branch() -> None:
    labels = [["a1", "a2"] * 3 + ["a3"], ["a1", "a2"] * 4, ["b1", "b2"] * 10, ["a3", "a1"] * 9]
    small = engine(federation(labels), TRAINING)
    state, _ = FedBDFT(TRAINING).apply(start(small), small)
    assert [(t.branch, t.client) for t in small.tasks] == [
        *((ROOT, 1), (ROOT, 2), (ROOT, 3)),
        (B, 2),  # longest first: 20 samples here, 18 at most there
        *((A, 1), (A, 3)),
    ]
    half = engine(federation(labels), replace(TRAINING, join_ratio=0.5))
    FedBDFT(replace(TRAINING, join_ratio=0.5)).apply(start(half), half)
    asked = [t.branch for t in half.tasks]
    assert asked == [ROOT, ROOT, B, A, A]  # two of four join; fewer eligible: all of them
    lower = engine(federation(labels), replace(TRAINING, min_branch_samples=7))
    FedBDFT(replace(TRAINING, min_branch_samples=7)).apply(start(lower), lower)
    assert (A, 0) in [(t.branch, t.client) for t in lower.tasks]
    assert state.cycle == 1


def test_a_branch_with_data_for_one_child_only_stays_as_decoupled() -> None:
    labels = [["a1"] * 20 + ["b1", "b2"] * 8, ["a1"] * 30]
    small = engine(federation(labels), TRAINING)
    state = before = start(small)
    while not FedBDFT(TRAINING).finished(state, small):
        state, _ = FedBDFT(TRAINING).apply(state, small)
    assert state.cycle > 0
    assert A not in [task.branch for task in small.tasks]
    assert equal(state.branches[A].best, before.branches[A].best)
    assert {e: branch.rounds > 0 for e, branch in state.branches.items()} == {
        ROOT: True,
        A: False,
        B: True,
    }


def test_nothing_to_train_is_finished_at_once() -> None:
    small = engine(federation([["a1"] * 3]), TRAINING)
    assert FedBDFT(TRAINING).finished(start(small), small)
    two = replace(TRAINING, min_clients=2)  # one client alone is not enough for a round
    small = engine(federation([["a1", "a2"] * 9]), two)
    assert FedBDFT(two).finished(start(small, two), small)


def test_every_branch_has_its_own_patience_and_its_best_weights() -> None:
    small = engine(federation([["a1", "a2", "b1", "b2", "c"] * 8]), TRAINING)
    told = {ROOT: [0.5, 0.4, 0.3], A: [0.5, 0.6, 0.6, 0.7], B: [0.5, 0.9, 0.1, 0.2]}
    small.validator.validate_branch = lambda e, weights: told[e].pop(0)
    settings = replace(TRAINING, cycles=3)
    state, history = start(small, settings), []
    while not FedBDFT(settings).finished(state, small):
        state, report = FedBDFT(settings).apply(state, small)
        history.append((state, [line["branch"] for line in report.branches]))
    assert [names for _, names in history] == [["r", "a", "b"], ["r", "a", "b"], ["a", "b"]]
    assert equal(state.branches[ROOT].best, small.model.decouple(small.model.initial)[0])
    assert state.branches[A].best is history[2][0].branches[A].weights
    assert state.branches[B].best is history[0][0].branches[B].weights


def test_without_validation_samples_a_branch_trains_to_the_last_cycle() -> None:
    sites = federation([["a1", "a2"] * 8], client_validation=[["c", "c"]])
    small = engine(sites, TRAINING)
    state = start(small)
    assert small.validator.validate_branch(A, state.branches[A].weights) is None
    while not FedBDFT(TRAINING).finished(state, small):
        state, report = FedBDFT(TRAINING).apply(state, small)
    assert state.cycle == TRAINING.cycles
    assert state.branches[A].best is state.branches[A].weights
    assert report.branches[0]["accuracy"] is None


def test_a_fault_is_told_with_its_branch_which_stays_and_loses_patience() -> None:
    small = engine(federation([["a1", "a2", "b1", "b2"] * 8]), TRAINING)
    train = small.trainer.train

    def faulty(number: int, client: int, weights: State, branch: int, _: State | None) -> Update:
        if branch == A:
            raise ValueError("no such image")
        return train(number, client, weights, branch)

    small.trainer.train = faulty
    state = before = start(small)
    while not FedBDFT(replace(TRAINING, cycles=9)).finished(state, small):
        state, report = FedBDFT(TRAINING).apply(state, small)
        if state.cycle <= TRAINING.stopping.patience:
            told = {(fault["client"], fault["branch"]) for fault in report.faults}
            assert told == {("site 0", "a")}
    assert state.branches[A].weights is before.branches[A].weights
    assert [task.branch for task in small.tasks].count(A) == TRAINING.stopping.patience
    assert state.branches[B].rounds > 0


def test_a_rate_at_which_no_branch_can_be_trained_is_said() -> None:
    settings = replace(TRAINING, branch=LocalSettings(lr=float("inf")))
    small = engine(federation([["a1", "a2"] * 8]), settings)
    with pytest.raises(DivergedError, match="cycle 1: no branch has been trained, and site 0 fail"):
        FedBDFT(settings).apply(start(small), small)


def test_projection_trains_the_branches_of_clients_that_know_all_or_nothing_of_them() -> None:
    """Their labels stand for no set: there is no share, and no gradient of one."""
    labels = [["a1", "a2", "a3", "b1", "b2"] * 4, ["a", "b1", "b2", "c"] * 4]
    knowledge = [known("a", "a1", "a2", "a3", "b", "b1", "b2", "c"), known("a", "b", "b1", "b2")]
    small = engine(federation(labels, knowledge), TRAINING, branch_supervision="projection")
    state, report = FedBDFT(TRAINING).apply(start(small), small)
    assert report.faults == []
    assert [branch.rounds for branch in state.branches.values()] == [1, 1, 1]


def test_projection_in_the_branches_and_paper_before() -> None:
    """Site 0 knows a and a1: its a means a2 or a3. Site 1 knows all of a: its a says nothing."""
    labels = [["a1", "a", "a", "b"], ["a1", "a2", "a", "c"]]
    knowledge = [known("a", "b", "a1"), known("a", "a1", "a2", "a3", "c")]
    sites = federation(labels, knowledge)
    sizes = {}
    for stage, branches in (("paper", "projection"), ("projection", "paper")):
        small = engine(
            sites, TRAINING, supervision=stage, branch_supervision=branches, laziness=0.1
        )
        sizes[branches] = [small.samples(client, A) for client in (0, 1)]
        assert bool(small.trainer.supervised(0).readings) == (stage == "projection")
        assert small.children_with_data(A) == (3 if branches == "projection" else 2)
    assert sizes == {"projection": [3, 2], "paper": [1, 2]}


def test_two_labellers_of_one_site_are_read_each_by_their_own_knowledge() -> None:
    """One knows a1: their a means a2 or a3. The other knows nothing below a: theirs says nothing.

    Read as one labeller, who knows a1, both would say "not a1".
    """
    labels, who = ["a1", "a", "a", "b"], np.array([0, 0, 1, 1])
    knowledge = np.stack([known("a", "a1", "b"), known("a", "b")])
    sites = federation([labels])
    site = sites.clients[0]
    train = replace(site.train, labellers=who)
    sites = replace(sites, clients=(replace(site, train=train, known=knowledge),))
    small = engine(sites, TRAINING, supervision="projection", branch_supervision="projection")
    data = small.trainer.branch_data(0, A)
    assert data.indices.tolist() == [0, 1]
    assert data.targets.tolist() == [[0, 0], [TOGETHER, 0]]
    assert small.children_with_data(A) == 3
    assert small.trainer.whole_data(0).targets.tolist() == [
        [NODE[label], labeller] for label, labeller in zip(labels, who, strict=True)
    ]
    _, report = FedBDFT(TRAINING).apply(start(small), small)
    assert report.faults == []
    paper = engine(sites, TRAINING)
    assert paper.trainer.whole_data(0).targets.tolist() == [NODE[label] for label in labels]


def test_another_head_has_no_branches() -> None:
    small = engine(federation([["a1"]]), TRAINING, head="flat-softmax")
    with pytest.raises(FederationError, match="fedbdft needs the head cond-softmax"):
        small.model.decouple(small.model.initial)


def test_clients_validate_by_projection_and_cutting_back() -> None:
    """Section 10: the projection of the prediction against the client's own label."""
    knowledge = [known("a", "a1", "b"), known("a", "a1", "a2", "a3", "b", "b1", "b2", "c")]
    validation = [["a", "a1", "b", "r"], ["a2", "c"]]
    sites = federation([["a1"], ["a1"]], knowledge, client_validation=validation)
    small = engine(sites, TRAINING)
    said = {
        0: ["a2", "a2", "b1", "c"],  # projected: a, a, b, r
        1: ["a3", "b1"],
    }
    rows = {600: 0, 700: 1}
    small.validator.predict_leaves = lambda weights, indices: np.array(
        [NODE[name] for name in said[rows[int(indices[0])]]]
    )
    # a for a: 1; a for a1: 2*1/(2+1); b for b: 1; r for r: both empty paths; a3 for a2: 1/2; 0
    root_for_root = 1.0
    expected = [1.0, 2 / 3, 1.0, root_for_root, 0.5, 0.0]
    assert small.validate({}).hf == pytest.approx(np.mean(expected))


def test_a_site_validates_by_what_the_labeller_of_an_image_knows() -> None:
    knowledge = np.stack([known("a", "a1", "a2", "a3"), known("a")])
    sites = federation([["a1", "a"]], client_validation=[["a1", "a1"]])
    site, who = sites.clients[0], np.array([0, 1])
    own = Client("both", replace(site.train, labellers=who), knowledge,
                 replace(site.validation, labellers=who))  # fmt: skip
    small = engine(replace(sites, clients=(own,)), TRAINING)
    small.validator.predict_leaves = lambda weights, indices: np.full(2, NODE["a2"])
    # a2 for a1: 1/2; projected to a, for a1: 2*1/(2+1)
    assert small.validate({}).hf == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_the_accuracy_of_a_branch_is_over_truths_below_it() -> None:
    small = engine(federation([["a1"]]), TRAINING)
    weights = {name: torch.zeros_like(v) for name, v in start(small).branches[A].weights.items()}
    weights["head.bias"][1] = 1.0  # always says a2, which is 2 of the 6 samples below a
    assert small.validator.validate_branch(A, weights) == pytest.approx(1 / 3)

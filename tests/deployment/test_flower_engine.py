"""The engine and the sites' answers, message by message; only the network between them is left out.

What runs over a real network is in test_same_weights.py and test_deployment.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.task_identity import TaskIdentity

from fedgrain.calibration.temperature_sums import TEMPERATURES
from fedgrain.config.config import Config
from fedgrain.deployment.app import App
from fedgrain.deployment.flower_engine import FlowerEngine
from fedgrain.deployment.key_record import Member, Record, Roster
from fedgrain.engines import ClientTrainer, ModelSpec, SequentialEngine, Validator
from fedgrain.errors import DeploymentError, FederationError
from fedgrain.federated import (
    Fault,
    Federation,
    Kind,
    LocalSettings,
    Task,
    TrainingSettings,
    Update,
)
from fedgrain.federated.fedavg import FedAvg
from fedgrain.federated.fedbdft import FedBDFT
from fedgrain.handover.passing import Request
from fedgrain.heads import DecoupledModel, decouple
from fedgrain.images.images import UNKNOWN_STATISTICS
from fedgrain.messages.calibration_counts import calibrated_by_sites, counts_read, sums_read
from fedgrain.messages.replies import validation_of
from fedgrain.messages.wire import Counts, counts_of, pairs_of, record_of, state_of
from fedgrain.models.model_folder import ModelDescription
from fedgrain.runs.calibrate import on_validation
from fedgrain.scoring.validation_score import ValidationScore
from fedgrain.sites import site as site_module
from fedgrain.sites.answers import Answering
from fedgrain.sites.site import Site
from fedgrain.taxonomy import write_json
from flower_wire import Answer, Wire, at
from small_federation import EVERYTHING, NODE, TREE, federation, known

MODEL = ModelSpec(net="own_parts:SmallNet", head="cond-softmax")
TRAINING = TrainingSettings(
    join_ratio=1.0,
    rounds=2,
    cycles=2,
    local=LocalSettings(batch=4),
    branch=LocalSettings(lr=0.05, batch=4),
    min_branch_samples=2,
)
LABELS = [["a1", "a2", "b1", "c", "a"], ["a3", "b2", "b", "c"], ["a1", "b1", "b2", "r"]]
VALIDATION = [["a1", "b1"], ["a3", "c", "b2"], ["a", "b1", "c", "c"]]
NAMES = ["museum", "zoo", "herbarium"]


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages carry the numbers of the run and task in which Flower would start us."""
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def sites_of(whole: Federation, rounding: int = 1) -> list[Site]:
    found = []
    for name, client in zip(NAMES, whole.clients, strict=True):
        nothing = None if client.validation is not None else site_module.NOTHING
        own = replace(whole, clients=(client,), validation=nothing)
        found.append(Site(name, SequentialEngine(ClientTrainer(own, MODEL, TRAINING)), rounding))
    return found


def engine_over(wire: Wire, whole: Federation, *, at_sites: bool = False) -> FlowerEngine:
    model = ClientTrainer(whole, MODEL, TRAINING).model
    validator = None if at_sites else Validator(whole, model)
    engine = FlowerEngine(wire, model, NAMES, TRAINING, validator=validator, time_limit=0.3)
    engine.said = engine.refresh()
    return engine


def whole(**options: Any) -> Federation:
    masks = [known("a", "a1", "a2", "b", "b1", "c"), EVERYTHING, known("a", "a1", "b", "b1", "b2")]
    return federation(LABELS, masks, **options)


def connected(rounding: int = 1, **options: Any) -> tuple[FlowerEngine, Wire, Federation]:
    everything = whole(**options)
    wire = Wire({10 + n: at(s) for n, s in enumerate(sites_of(everything, rounding))})
    return engine_over(wire, everything, at_sites=bool(options)), wire, everything


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return list(one) == list(two) and all(torch.equal(one[n], two[n]) for n in one)


def test_states_keep_names_types_shapes_and_bits() -> None:
    state = {
        "z": torch.tensor([1e-42, -0.0, torch.inf]),
        "conv": torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1)).to(
            memory_format=torch.channels_last
        ),
        "counter": torch.tensor(7),
        "empty": torch.empty(0, 3),
    }
    back = state_of(record_of(state))
    assert list(back) == list(state)
    for name, value in state.items():
        assert back[name].dtype == value.dtype and back[name].shape == value.shape
        assert back[name].numpy().tobytes() == value.contiguous().numpy().tobytes()


@pytest.mark.parametrize("branches", ["paper", "projection"])
def test_counts_are_those_of_the_engine_in_one_process(
    branches: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = replace(MODEL, branch_supervision=branches)
    monkeypatch.setitem(globals(), "MODEL", model)
    engine, _, everything = connected()
    here = SequentialEngine(ClientTrainer(everything, model, TRAINING))
    for client in range(3):
        assert engine.samples(client) == here.samples(client)
        for e in TREE.internal:
            assert engine.samples(client, int(e)) == here.samples(client, int(e))
    for e in TREE.internal:
        assert engine.children_with_data(int(e)) == here.children_with_data(int(e))


@pytest.mark.parametrize("at_sites", [False, True])
def test_both_algorithms_have_the_bits_of_one_process(at_sites: bool) -> None:
    options = {"client_validation": VALIDATION} if at_sites else {}
    engine, wire, everything = connected(**options)
    here = SequentialEngine(ClientTrainer(everything, MODEL, TRAINING))
    states = []
    for worker in (here, engine):
        state = FedAvg(TRAINING).init(here.model.initial)
        state, _ = FedAvg(TRAINING).apply(state, worker)
        state, report = FedAvg(TRAINING).apply(state, worker)
        cut = FedBDFT(TRAINING).decoupled(here.model.decouple(state.best), worker)
        before = len(wire.sent)
        cut, branch_report = FedBDFT(TRAINING).apply(cut, worker)
        states.append((state, report, cut, branch_report))
    (one, told, branches, branches_told), (two, told_2, branches_2, branches_told_2) = states
    assert same(one.weights, two.weights) and same(one.best, two.best)
    assert told_2.validation_hf == told.validation_hf
    assert told_2.validation == told.validation and told.line()["validation"]["samples"] > 0
    lines = [{**line, "client": NAMES[int(line["client"][-1])]} for line in told.clients]
    assert told_2.clients == lines
    for e, branch in branches.branches.items():
        assert same(branch.weights, branches_2.branches[e].weights)
        assert same(branch.best, branches_2.branches[e].best)
    for line, line_2 in zip(branches_told.branches, branches_told_2.branches, strict=True):
        assert line_2["accuracy"] == line["accuracy"]
    kinds = [message.metadata.message_type for message in wire.sent[before:]]
    assert kinds.count("train") == 3  # one message a site for all branches of the cycle
    assert kinds.count("evaluate") == (6 if at_sites else 0)
    trained = [m for m in wire.sent[before:] if m.metadata.message_type == "train"]
    sent = {m.metadata.dst_node_id - 10: set(m.content.array_records) for m in trained}
    for client, keys in sent.items():  # and only branches with enough samples there
        enough = [int(e) for e in TREE.internal if here.samples(client, int(e)) >= 2]
        assert keys == {f"branch {e}" for e in enough if here.children_with_data(e) >= 2}


@pytest.mark.parametrize("labeller", ["stops", "siblings", "fedmt"])
def test_a_site_that_starts_again_goes_on_with_its_own_t(
    labeller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sites start anew after round 5, in which FedMT still warms up; so does the server."""
    model = replace(MODEL, head="flat-softmax", supervision="learned", labeller=labeller)
    monkeypatch.setitem(globals(), "MODEL", model)
    here = SequentialEngine(ClientTrainer(whole(), model, TRAINING))
    expected = found = FedAvg(TRAINING).init(here.model.initial)
    for _ in range(7):
        expected, _ = FedAvg(TRAINING).apply(expected, here)
    for rounds in (5, 2):
        engine, _, _ = connected()
        for _ in range(rounds):
            found, report = FedAvg(TRAINING).apply(found, engine)
            assert len(report.clients) == 3
    assert found.round == 7 and same(found.weights, expected.weights)
    assert not same(found.weights, here.model.initial)


def outcome(engine: FlowerEngine, client: int) -> Update | Fault:
    task = Task(1, client, engine.model.initial)
    return next(iter(engine.train([task])))[1]


def spoiled(site: Site, change: Callable[[RecordDict], None]) -> Answer:
    def answer(message: Message) -> RecordDict:
        content = at(site)(message)
        if message.metadata.message_type == "train":
            change(content)
        return content

    return answer


def _cut(content: RecordDict) -> None:
    state = state_of(content.array_records["whole"])
    content["whole"] = record_of({**state, "head.bias": state["head.bias"][:1]})


def _without(content: RecordDict) -> None:
    content["whole"] = ArrayRecord()


def _empty(content: RecordDict) -> None:
    del content["whole told"]


def _wrong(content: RecordDict) -> None:
    content["whole told"] = MetricRecord({"update": [1.0]})


def _heavy(content: RecordDict) -> None:
    content["whole told"] = MetricRecord({"update": [1e6, 0.1, 1.0]})


def _endless(content: RecordDict) -> None:
    content["whole told"] = MetricRecord({"update": [float("inf"), 0.1, 1.0]})


def _halves(content: RecordDict) -> None:
    state = state_of(content.array_records["whole"])
    content["whole"] = record_of({n: v.half() for n, v in state.items()})


def _failed(content: RecordDict) -> None:
    content["failed"] = ConfigRecord({"why": "it is late"})


@pytest.mark.parametrize(
    ("change", "kind", "reason"),
    [
        (_failed, "error", "it failed (see its log)"),
        (_cut, "misfit", "its update has head.bias of shape [1], but [8] was sent"),
        (_without, "misfit", "its update has other weights than it was sent"),
        (_empty, "unreadable", "its answer cannot be read (KeyError)"),
        (_wrong, "unreadable", "its answer cannot be read (ValueError)"),
        (_heavy, "refused", "its update is of 1000000 samples, but it reported 4; if its data has"),
        (_endless, "unreadable", "its answer cannot be read (NotACountError)"),
        (_halves, "misfit", "its update has features.0.weight of type float16, but float32 was"),
    ],
)
def test_a_bad_answer_costs_its_own_update_alone(
    change: Callable[[RecordDict], None], kind: str, reason: str
) -> None:
    everything = whole()
    good, bad, other = sites_of(everything)
    wire = Wire({10: at(good), 11: spoiled(bad, change), 12: at(other)})
    engine = engine_over(wire, everything)
    tasks = [Task(1, client, engine.model.initial) for client in (2, 1, 0)]
    found = list(engine.train(tasks))
    assert [task.client for task, _ in found] == [2, 1, 0]
    assert isinstance(found[0][1], Update) and isinstance(found[2][1], Update)
    fault = found[1][1]
    assert isinstance(fault, Fault) and fault.kind == kind and fault.reason.startswith(reason)


@pytest.mark.parametrize("told", [{}, {"seconds": [1.0, 2.0]}, {"minutes": 3.0}])
def test_a_time_that_is_none_is_not_counted(told: dict[str, Any]) -> None:
    def change(content: RecordDict) -> None:
        content["time"] = MetricRecord(told)

    everything = whole()
    good, odd, other = sites_of(everything)
    wire = Wire({10: at(good), 11: spoiled(odd, change), 12: at(other)})
    assert isinstance(outcome(engine_over(wire, everything), 1), Update)


@pytest.mark.parametrize("score", [[float("nan"), 3.0], [0.5], [0.5, -1.0], [2.0, 9.0], None])
def test_a_score_that_is_none_does_not_count(score: list[float] | None) -> None:
    everything = whole(client_validation=VALIDATION)
    good, bad, other = sites_of(everything)

    def answer(message: Message) -> RecordDict:
        if message.metadata.message_type != "evaluate":
            return at(bad)(message)
        return RecordDict({"scores": MetricRecord({"hf": score})} if score else {})

    engine = engine_over(Wire({10: at(good), 11: answer, 12: at(other)}), everything, at_sites=True)
    weights = engine.model.initial
    expected = [(site.engine.validate(weights).hf, n) for site, n in ((good, 2), (other, 4))]
    mean = sum(hf * count for hf, count in expected) / 6
    assert engine.validate(weights).hf == pytest.approx(mean)


@pytest.mark.parametrize(
    "lie",
    [
        {"leaf hf": [1.0, 4.0]},  # more leaves than labels
        {"weighted hf": [1.0, 3.5]},
        {"leaf hf": [1.0, 1.5]},
        {"weighted hf": [1.0, float("nan")]},
        {"weighted hf": [1.0, -1.0]},
        {"leaf hf": [1.5, 1.0]},
        {"leaf hf": [1.0, 2.0, 3.0]},
    ],
    ids=str,
)
def test_a_score_against_more_than_there_is_does_not_count(lie: dict[str, list[float]]) -> None:
    everything = whole(client_validation=VALIDATION)
    good, bad, other = sites_of(everything)

    def answer(message: Message) -> RecordDict:
        if message.metadata.message_type != "evaluate":
            return at(bad)(message)
        return RecordDict({"scores": MetricRecord({"hf": [1.0, 3.0], **lie})})

    honest = engine_over(Wire({10: at(good), 12: at(other)}), everything, at_sites=True)
    engine = engine_over(Wire({10: at(good), 11: answer, 12: at(other)}), everything, at_sites=True)
    weights = engine.model.initial
    assert engine.validate(weights) == honest.validate(weights)


def test_sites_round_every_count_of_a_score() -> None:
    score = ValidationScore(0.9, 123, 0.5, 41, 0.6, 60.25)
    assert pairs_of(score) == {
        "hf": [0.9, 123.0], "leaf hf": [0.5, 41.0], "weighted hf": [0.6, 60.25]
    }  # fmt: skip
    assert pairs_of(score, 50) == {
        "hf": [0.9, 100.0], "leaf hf": [0.5, 50.0], "weighted hf": [0.6, 50.0]
    }  # fmt: skip
    read = validation_of(pairs_of(score))
    assert read == score and read.counted_as(12.3).leaf_samples == pytest.approx(4.1)


def test_a_silent_site_is_left_alone_until_it_shows_life() -> None:
    engine, wire, _ = connected()
    answer = wire.sites[11]

    def silent(message: Message) -> RecordDict:
        raise TimeoutError

    wire.sites[11] = silent
    assert outcome(engine, 1) == Fault("it did not answer within 0.3 seconds", Kind.TIME_OUT)
    before = len(wire.sent)
    assert engine.refresh() == [] and engine.missing() == ["zoo"]
    assert outcome(engine, 1) == Fault("it is not connected", Kind.GONE)
    assert len(wire.sent) == before
    wire.infos[11] = NodeInfo(node_id=11, online_until=2.0)  # its heart beats
    wire.sites[11] = answer
    assert engine.refresh() == ["zoo is connected with 4 samples"]
    assert isinstance(outcome(engine, 1), Update)


def test_a_site_may_come_back_as_another_node() -> None:
    engine, wire, _ = connected()
    wire.sites[99] = wire.sites.pop(12)
    wire.infos[99] = NodeInfo(node_id=99)
    del wire.infos[12]
    assert engine.refresh() == ["herbarium is connected with 4 samples"]
    assert isinstance(outcome(engine, 2), Update)


def test_strangers_impostors_and_other_trees_stay_out() -> None:
    everything = whole()
    museum, zoo, _ = sites_of(everything)
    other_tree = Counts("herbarium", 3, {0: 3}, {0: [1, 1]})
    wire = Wire({
        10: at(replace(museum, name="casino")),
        11: at(zoo),
        12: lambda message: other_tree.record(),
        13: lambda message: RecordDict(),
    })  # fmt: skip
    wire.infos[11] = NodeInfo(node_id=11, name="museum")
    engine = engine_over(wire, everything)
    assert engine.said == [
        "node 10 does not take part: it calls itself 'casino', which is not a site of this app",
        "museum does not take part: its key is registered for 'museum', not 'zoo'",
        "node 12 does not take part: its counts are of another taxonomy; give it this app's",
        "node 13 does not take part: its counts cannot be read (KeyError)",
    ]
    assert engine.missing() == NAMES
    with pytest.raises(FederationError, match="no client has a sample"):
        FedAvg(TRAINING).apply(FedAvg(TRAINING).init(engine.model.initial), engine)


def test_a_node_that_is_not_on_record_is_sent_nothing(tmp_path: Path) -> None:
    Record("127.0.0.1", 1, 2, 3, {"museum": Member()}).write(tmp_path / "federation.json")
    everything = whole()
    wire = Wire({10: at(sites_of(everything)[0])})  # it answers as museum, under no name
    roster = Roster(tmp_path / "federation.json")
    model = ClientTrainer(everything, MODEL, TRAINING).model
    validator = Validator(everything, model)
    engine = FlowerEngine(wire, model, NAMES, TRAINING, validator=validator, roster=roster)
    assert engine.refresh() == [
        "node 10 does not take part: its key is registered without a name; a site's name belongs "
        "to one key"
    ]
    assert wire.sent == [] and engine.missing() == NAMES


def test_rounded_counts_are_all_a_site_tells() -> None:
    engine, _, _ = connected(rounding=3)
    assert [engine.samples(client) for client in range(3)] == [6, 3, 3]
    assert engine.samples(0, NODE["b"]) == 0  # one sample
    update = outcome(engine, 0)
    assert isinstance(update, Update) and (update.samples, update.steps) == (6, 2)
    exact, _, _ = connected()
    weights = [outcome(e, 0) for e in (engine, exact)]
    assert same(weights[0].state, weights[1].state)


@pytest.mark.parametrize("branch", [None, NODE["r"]])
def test_rounded_steps_are_those_of_all_epochs(
    branch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = LocalSettings(batch=4, epochs=3)
    settings = replace(TRAINING, local=local, branch=replace(local, batch=2))
    monkeypatch.setitem(globals(), "TRAINING", settings)
    engine, _, _ = connected(rounding=3)
    initial = engine.model.initial
    weights = initial if branch is None else engine.decouple(initial)[branch]
    (_, update), *_ = engine.train([Task(1, 0, weights, branch)])
    assert isinstance(update, Update) and update.samples == 6
    assert update.steps == (3 * 2 if branch is None else 3 * 3)


def test_what_a_site_says_of_a_failure_names_no_file_or_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = App(Config(dataset="folder", image_size=32), TREE)
    package = tmp_path / "app"
    package.mkdir()
    (package / "config.toml").write_text(app.config.toml())
    write_json(TREE, package / "taxonomy.json")
    manifest = tmp_path / "secret.csv"
    manifest.write_text("path,label\npatient.png,a1\n")
    node = {"site": "museum", "images": str(manifest)}
    settings = {"sites": '["museum"]', "count-rounding": 1}
    answer = Answering().answer(Request("query", str(package), node, settings), RecordDict())
    assert dict(answer.config_records["failed"]) == {"fault": "ManifestError"}
    assert list(answer) == ["failed"]
    assert "patient.png" in capsys.readouterr().err  # the site itself is told


def test_code_that_an_app_names_runs_only_where_the_site_trusts_it(tmp_path: Path) -> None:
    (tmp_path / "evil_net.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('owned').touch()\n"
    )
    config = Config(dataset="folder", image_size=32, net="evil_net:Net")
    (tmp_path / "config.toml").write_text(config.toml())
    write_json(TREE, tmp_path / "taxonomy.json")
    node = {"site": "museum", "images": str(tmp_path / "images.csv")}
    settings = {"sites": '["museum"]', "count-rounding": 1}
    request = Request("query", str(tmp_path), node, settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        told = Answering().answer(request, RecordDict()).config_records["declined"]
    assert told["rule"] == "trust-code" and "its net is 'evil_net:Net', code" in str(told["why"])
    assert not (tmp_path / "owned").exists()


def test_counts_survive_the_way() -> None:
    counts = Counts("zoo", 7, {0: 5, 4: 2}, {0: [1, 0, 1], 4: [0, 1]})
    assert counts_of(counts.record()) == counts
    with pytest.raises(DeploymentError, match="cannot be read"):
        counts_of(RecordDict())
    endless = counts.record()
    endless["counts"] = MetricRecord({**endless.metric_records["counts"], "whole": float("inf")})
    with pytest.raises(DeploymentError, match=r"\(inf is not a count of samples\)"):
        counts_of(endless)


def test_arrays_alone_make_the_bytes_that_are_counted() -> None:
    engine, _, _ = connected()
    engine.traffic = type(engine.traffic)()
    outcome(engine, 0)
    weights = sum(value.numpy().nbytes for value in engine.model.initial.values())
    assert engine.traffic.messages == 2
    assert 2 * weights <= engine.traffic.bytes < 2 * weights + 2 * 200 * len(engine.model.initial)
    assert engine.traffic.exchange_seconds > 0


@pytest.mark.parametrize("by_branch", [False, True])
def test_sites_calibrate_the_model_as_one_process_does_with_sums_and_counts(
    by_branch: bool,
) -> None:
    validation = [["a1", "b1"] * 6, ["a3", "c", "b2"] * 5, ["a", "b1", "c", "c"] * 4]
    engine, wire, everything = connected(client_validation=validation)
    about = ModelDescription(MODEL, TREE, TREE, (32, 32, 3), UNKNOWN_STATISTICS)
    model = about.with_weights(engine.model.initial, by_branch=False)
    if by_branch:
        nets = decouple(model.net, model.head)
        model = replace(model, net=DecoupledModel(TREE, nets))
    before = len(wire.sent)
    here, there = on_validation(everything)(model), engine.calibrated(model)
    assert here is not None and there is not None and here.temperature != 1.0
    one, two = here.entries(TREE), there.entries(TREE)
    assert one.pop("source") != two.pop("source") and one == two
    assert there.images == 43 and there.coarse(TREE) == 4
    assert [m.metadata.message_type for m in wire.sent[before:]] == ["evaluate"] * 6
    rounding, _, _ = connected(5, client_validation=validation)
    assert rounding.calibrated(model) is None  # a site that rounds its counts sends none


def test_counts_that_do_not_fit_cost_only_their_site() -> None:
    good = {"nodes 1": [0, 2], "sets 1": [3, 2], "strangeness 0": [5, 1, 6, 1]}
    assert counts_read(good, TREE).nodes.images == 2
    for spoilt in (
        {**good, "sets 1": [3, 1]},  # of fewer images
        {**good, "nodes 99": [0, 2]},
        {**good, "nodes 1": [0, -2]},
        {**good, "nodes 1": [10**6, 2]},
        {**good, "others 1": [0, 2]},
    ):
        assert counts_read(spoilt, TREE) is None
    assert sums_read({"sums": [1.0] * 33 + [2]}) is not None
    for numbers in ([1.0] * 32, [float("nan")] * 34, [1.0] * 33 + [0.5], ["x"] * 34):
        assert sums_read({"sums": numbers}) is None
    assert sums_read({"sums": [1e30] * 33 + [1]}) is None  # no model has such a loss


def test_a_liar_neither_chooses_the_temperature_nor_outweighs_the_counts() -> None:
    """One image in the sums: it may not shout, nor become a thousand million in the counts."""
    curve = [float(50 + abs(place - 10)) for place in range(33)]
    honest = {"sums": [*curve, 50.0]}, {"nodes 1": [0, 50], "sets 1": [3, 50],
              "strangeness 0": [5, 50]}  # fmt: skip
    loud = {"sums": [1e30] * 32 + [0.0, 1.0]}
    many = {"nodes 1": [9, 10**9], "sets 1": [9, 10**9], "strangeness 0": [9, 10**9]}

    def asked(*sites: Any) -> Any:
        def ask(what: str, about: Mapping[str, str]) -> Any:
            return {place: site[what != "temperature"] for place, site in enumerate(sites)}

        return calibrated_by_sites(ask, TREE, None)

    alone, lied = asked(honest, honest), asked(honest, honest, (loud, many))
    assert lied.temperature == alone.temperature == TEMPERATURES[10]
    assert lied.images == alone.images == 100

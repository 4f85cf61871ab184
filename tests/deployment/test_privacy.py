"""What differential privacy costs, and that what leaves a site is clipped, noised and counted."""

from __future__ import annotations

import json
import math
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")
pytest.importorskip("dp_accounting", reason="not installed: pip install 'fedgrain[dp]'")

import dp_accounting
from flwr.app import Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedgrain.cli import main
from fedgrain.config.config import Config
from fedgrain.deployment.app import App, app_privacy, write_app
from fedgrain.deployment.flower_engine import FlowerEngine
from fedgrain.deployment.ledger import ServerLedger, SiteLedger
from fedgrain.deployment.privacy import Privacy
from fedgrain.deployment.server import serve
from fedgrain.deployment.server_settings import Operation, StartRecord
from fedgrain.engines import ClientTrainer, ModelSpec, SequentialEngine
from fedgrain.errors import DeploymentError, RunError
from fedgrain.federated import Federation, LocalSettings, TrainingSettings
from fedgrain.federated.fedavg import FedAvg
from fedgrain.federated.fedbdft import FedBDFT
from fedgrain.handover.passing import Request
from fedgrain.messages.wire import by_branch, pack, state_of
from fedgrain.models.model_folder import load
from fedgrain.records.audit import read_audit
from fedgrain.runs.run_folder import RunFolder
from fedgrain.sites.answers import Answering
from fedgrain.sites.noised_updates import Release, released
from fedgrain.sites.site import Site, open_site
from flower_wire import Answer, Wire, at, through
from small_federation import EVERYTHING, TREE, federation

PRIVACY = Privacy(noise_multiplier=2.0, clip=0.5)
ALMOST_NONE = Privacy(noise_multiplier=1e-12, clip=0.5)
MODEL = ModelSpec(net="own_parts:SmallNet", head="cond-softmax")
TRAINING = TrainingSettings(
    join_ratio=1.0, rounds=1, local=LocalSettings(batch=4), min_branch_samples=2
)


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


# what it costs


def delta_of(epsilon: float, ratio: float) -> float:
    """Balle and Wang 2018, theorem 8: the exact delta of one Gaussian release."""

    def below(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    half = 1 / (2 * ratio)
    return below(half - epsilon * ratio) - math.exp(epsilon) * below(-half - epsilon * ratio)


@pytest.mark.parametrize("noise", [0.8, 2.0, 10.0])
@pytest.mark.parametrize("releases", [1, 3, 40])
def test_epsilon_is_the_exact_one_of_the_gaussian_mechanism(noise: float, releases: int) -> None:
    epsilon = Privacy(noise, 1.0, delta=1e-5).epsilon(releases)
    ratio = noise / 2 / math.sqrt(releases)
    assert delta_of(epsilon, ratio) == pytest.approx(1e-5, rel=1e-5)
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(noise / 2), releases)
    bound = accountant.get_epsilon(1e-5)  # Rényi's way is a little above, never below
    assert epsilon < bound < 1.15 * epsilon


def test_known_values() -> None:
    """A noise of one sensitivity costs 4.377 at 1e-5 (dp-accounting's own PLD gives the same)."""
    assert Privacy(2.0, 0.1).epsilon(1) == pytest.approx(4.37718, abs=1e-5)
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(4.0), 10)
    assert Privacy(8.0, 3.0).epsilon(10) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-4)


@given(some.floats(0.2, 20), some.integers(1, 500), some.floats(1e-9, 1e-2))
def test_more_releases_cost_more_and_more_noise_less(
    noise: float, releases: int, delta: float
) -> None:
    privacy = Privacy(noise, 1.0, delta)
    cost = privacy.epsilon(releases)
    assert privacy.epsilon(0) == 0.0
    assert cost < privacy.epsilon(releases + 1)
    assert Privacy(1.1 * noise, 1.0, delta).epsilon(releases) <= cost
    assert Privacy(noise, 7.0, delta).epsilon(releases) == cost  # the clip is only a unit


@pytest.mark.parametrize(
    ("given_", "sentence"),
    [
        ((1.0, None, None), "needs both, a noise multiplier and the norm to clip at"),
        ((None, 1.0, None), "needs both, a noise multiplier and the norm to clip at"),
        ((None, None, 1e-5), "dp delta alone adds no noise"),
        ((0.0, 1.0, None), "dp noise_multiplier is 0, but must be more than 0 and finite"),
        ((1.0, math.inf, None), "dp clip is inf, but must be more than 0 and finite"),
        ((1.0, 1.0, 1.0), "dp delta is 1, but must lie between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_told(given_: tuple[float | None, ...], sentence: str) -> None:
    with pytest.raises(DeploymentError, match=sentence):
        Privacy.given(*given_)
    assert Privacy.given(None, None, None) is None
    assert Privacy.of({}) is None


def test_without_the_extra_it_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    (tmp_path / "tree.csv").write_text("parent,child\nr,a\nr,b\n")
    wanted = ["flower", "init", str(tmp_path / "out"), "--taxonomy", str(tmp_path / "tree.csv")]
    options = ["--site", "zoo", "--dp-noise-multiplier", "2", "--dp-clip", "1"]
    assert main([*wanted, *options]) == 2
    said = capsys.readouterr().err
    assert "install it with: pip install 'fedgrain[dp,flower]'" in said and said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tree.csv"]


# what a site sends


@given(
    some.lists(some.floats(-1e6, 1e6, width=32), min_size=1, max_size=50),
    some.floats(1e-3, 1e3),
)
def test_the_norm_is_never_above_the_clip(values: list[float], clip: float) -> None:
    update = np.array(values)
    found = released(update, Privacy(1e-14, clip))
    norm = np.linalg.norm(update)
    assert np.linalg.norm(found) <= clip * (1 + 1e-12)
    expected = update if norm <= clip else update * (clip / norm)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * clip)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_an_update_that_is_none_looks_like_any_other(bad: float) -> None:
    found = released(np.array([bad, 0.0, 0.0] * 1000), PRIVACY)
    assert np.isfinite(found).all()
    assert found.std() == pytest.approx(1.0, abs=0.1)


def test_noise_has_the_deviation_told_and_nobody_can_foretell_it() -> None:
    np.random.seed(5)  # noqa: NPY002 (Flower's mod draws from this generator)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    nothing = np.zeros(40_000)
    one, two = released(nothing, PRIVACY), released(nothing, PRIVACY)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    three = released(nothing, PRIVACY)
    for noise in (one, two, three):
        assert noise.mean() == pytest.approx(0.0, abs=5 / 200)
        assert noise.std() == pytest.approx(1.0, rel=5 / math.sqrt(2 * 40_000))
    assert abs(np.corrcoef([one, two, three])[np.triu_indices(3, 1)]).max() < 5 / 200


def whole(labels: list[str]) -> Federation:
    return federation([labels], [EVERYTHING], client_validation=[["a1", "b1"]])


def site_with(labels: list[str], place: Path, privacy: Privacy = PRIVACY) -> Site:
    release = Release(privacy, SiteLedger(place / "releases.jsonl"))
    return Site(
        "zoo", SequentialEngine(ClientTrainer(whole(labels), MODEL, TRAINING)), release=release
    )


def asked(site: Site, round_number: int = 1) -> RecordDict:
    message = pack({None: site.engine.model.initial}, client=0, round=round_number, run="r1")
    return site.train(message)


def way(site: Site, answer: RecordDict) -> torch.Tensor:
    start, found = site.engine.model.initial, state_of(answer.array_records["whole"])
    return torch.cat(
        [(found[n] - v).double().ravel() for n, v in start.items() if v.is_floating_point()]
    )


@pytest.mark.parametrize("supervision", ["paper", "learned"])
def test_a_site_tells_nothing_but_a_clipped_noised_update(
    supervision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it learned of its labellers changes the update, which is clipped and noised whole."""
    model = replace(MODEL, supervision=supervision, branch_supervision=supervision)
    monkeypatch.setitem(globals(), "MODEL", model)
    site = site_with(["a1", "a2", "b1", "c", "a"], tmp_path)
    other = site_with(["c"] * 9, tmp_path)
    assert site.counts() == other.counts()  # the same of any data
    answer = asked(site)
    assert sorted(answer) == ["releases", "whole", "whole told"]
    assert dict(answer.metric_records["whole told"]) == {"samples": 1}
    weights = sum(v.numel() for v in site.engine.model.initial.values() if v.is_floating_point())
    assert way(site, answer).norm() == pytest.approx(math.sqrt(weights), rel=0.1)  # 2.0 * 0.5
    with pytest.raises(DeploymentError, match="the site sends no scores"):
        site.evaluate(pack({None: site.engine.model.initial}, what="hf"))

    clipped = site_with(["a1", "a2", "b1", "c", "a"], tmp_path, replace(ALMOST_NONE, clip=1e-3))
    plain = replace(site, release=None)
    moved, true = way(site, asked(clipped)), way(site, asked(plain))
    assert moved.norm() == pytest.approx(1e-3, rel=1e-2)  # but for the float32 of the weights
    assert torch.dot(moved, true) / moved.norm() / true.norm() > 0.999


def test_a_site_without_samples_or_with_a_failing_net_sends_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = site_with([], tmp_path)
    assert way(empty, asked(empty)).std() == pytest.approx(1.0, abs=0.1)
    failing = site_with(["a1", "b1"], tmp_path)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("patient.png")

    monkeypatch.setattr(failing.engine.trainer, "train", fail)
    answer = asked(failing)
    assert sorted(answer) == ["releases", "whole", "whole told"]
    assert way(failing, answer).std() == pytest.approx(1.0, abs=0.1)
    assert "patient.png" in capsys.readouterr().err


def test_branches_of_a_message_are_one_release_clipped_together(tmp_path: Path) -> None:
    site = site_with(["a1", "a2", "b1", "b2", "c"], tmp_path, replace(ALMOST_NONE, clip=0.01))
    branches = site.engine.model.decouple(site.engine.model.initial)
    answer = site.train(pack(by_branch(branches), client=0, round=1, run="r1"))
    ways = [
        state_of(answer.array_records[f"branch {e}"])[name] - value
        for e, state in branches.items()
        for name, value in state.items()
        if value.is_floating_point()
    ]
    assert math.hypot(*(float(part.norm()) for part in ways)) == pytest.approx(0.01, rel=1e-2)
    assert sum(float(part.norm()) > 0 for part in ways) > len(ways) / 2
    assert answer.metric_records["releases"]["count"] == 1


# what is written down


def test_a_site_writes_every_release_down_before_it_leaves(tmp_path: Path) -> None:
    site, path = site_with(["a1", "b1"], tmp_path), tmp_path / "releases.jsonl"
    counts = [asked(site, number).metric_records["releases"]["count"] for number in (1, 1, 2)]
    assert counts == [1, 2, 3]  # the first round was repeated
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 1, 2]
    assert lines[0] == {
        "run": "r1", "round": 1, "noise_multiplier": 2.0, "clip": 0.5, "delta": 1e-5,
    }  # fmt: skip
    other_run = pack({None: site.engine.model.initial}, client=0, round=1, run="r2")
    assert site.train(other_run).metric_records["releases"]["count"] == 1
    with pytest.raises(FileNotFoundError):  # what cannot be written down is not sent
        asked(replace(site, release=Release(PRIVACY, SiteLedger(tmp_path / "no" / "file"))))


def server_ledger(place: Path, *sites: str) -> ServerLedger:
    operation = Operation(sites, place, privacy=PRIVACY)
    return ServerLedger(StartRecord(RunFolder(place)), operation)


def test_the_servers_ledger_counts_repeated_rounds_cut_lines_and_what_sites_know(
    tmp_path: Path,
) -> None:
    ledger = server_ledger(tmp_path, "museum", "zoo")
    assert ledger.releases() == {"museum": 0, "zoo": 0}
    ledger.add(1, ["museum", "zoo"])
    ledger.add(1, ["museum", "zoo"])
    ledger.add(2, ["zoo"])
    assert ledger.releases() == {"museum": 2, "zoo": 3}
    ledger.agree(2, "museum", 5)
    ledger.agree(2, "zoo", 1)
    assert ledger.releases() == {"museum": 5, "zoo": 3}
    with ledger.path.open("a") as file:
        file.write('{"round": 3, "si')  # the power went
    assert server_ledger(tmp_path, "museum", "zoo").releases() == {"museum": 6, "zoo": 4}
    ledger.add(3, ["museum"])  # on a line of its own
    assert ledger.releases() == {"museum": 7, "zoo": 4}
    assert ledger.run == server_ledger(tmp_path, "museum", "zoo").run  # and stays the same
    report = PRIVACY.report(ledger.releases())
    assert report["releases"] == 7 and report["epsilon"] == PRIVACY.epsilon(7)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"strategy": "FedAdam"}, 'started with strategy "ours", not "FedAdam"; use the same'),
        ({"count_rounding": 50}, "started with count rounding 1, not 50"),
        ({"sites": ["zoo", "museum"]}, "started with sites"),
        ({"privacy": PRIVACY}, "started with differential privacy null, not "),
    ],
)
def test_a_run_resumes_only_with_the_settings_it_started_with(
    tmp_path: Path, other: dict[str, Any], sentence: str
) -> None:
    operation, record = Operation(["museum", "zoo"], tmp_path), StartRecord(RunFolder(tmp_path))
    record.check(operation)
    name = record.name(operation)
    record.check(replace(operation, wait_seconds=3))
    assert record.name(operation) == name
    with pytest.raises(RunError, match=sentence):
        record.check(replace(operation, **other))


# the whole


NAMES = ["museum", "zoo", "herbarium"]
LABELS = [["a1", "a2", "b1", "c"], ["a3", "b2"], []]


def test_both_algorithms_with_noise(tmp_path: Path) -> None:
    everything = federation(LABELS, client_validation=[["a1"], ["b1"], ["c"]])
    settings = replace(TRAINING, min_branch_samples=1)  # as the server sets it
    sites = {}
    for number, name in enumerate(NAMES):
        own = replace(everything, clients=(everything.clients[number],))
        ledger = SiteLedger(tmp_path / f"{name}.jsonl")
        release = Release(Privacy(0.02, 0.5), ledger)
        sites[10 + number] = at(
            Site(name, SequentialEngine(ClientTrainer(own, MODEL, TRAINING)), release=release)
        )
    wire = Wire(sites)
    ledger = server_ledger(tmp_path, *NAMES)
    engine = FlowerEngine(
        wire, ClientTrainer(everything, MODEL, settings).model, NAMES, settings, ledger=ledger
    )
    assert engine.refresh() == [
        f"{name} is connected; it keeps its counts private" for name in NAMES
    ]
    state, report = FedAvg(settings).apply(FedAvg(settings).init(engine.model.initial), engine)
    assert report.validation_hf is None and state.best is state.weights
    assert report.clients == [
        {"client": name, "samples": 1, "loss": None, "steps": None} for name in NAMES
    ]
    branches = FedBDFT(settings).decoupled(engine.model.decouple(state.best), engine)
    after, report = FedBDFT(settings).apply(branches, engine)
    assert report.validation_hf is None and not report.faults
    for e, branch in after.branches.items():
        assert branch.rounds == 1 and branch.best is branch.weights
        assert all(bool(v.isfinite().all()) for v in branch.weights.values())
        assert any(
            not torch.equal(v, branches.branches[e].weights[n]) for n, v in branch.weights.items()
        )
    kinds = [message.metadata.message_type for message in wire.sent]
    assert kinds.count("train") == 6 and "evaluate" not in kinds
    assert ledger.releases() == dict.fromkeys(NAMES, 2)
    assert [len((tmp_path / f"{n}.jsonl").read_text().splitlines()) for n in NAMES] == [2, 2, 2]


def app_with(place: Path, privacy: Privacy | None) -> Path:
    operation = Operation(["zoo"], place / "run", privacy=privacy)
    write_app(place / "app", App(Config(dataset="folder", image_size=32), TREE), operation)
    assert app_privacy(place / "app") == privacy
    return place / "app" / "fedgrain_app"


@pytest.mark.parametrize("privacy", [PRIVACY, None])
def test_noise_and_a_ledger_go_together_and_faults_have_no_name(
    tmp_path: Path, privacy: Privacy | None, capsys: pytest.CaptureFixture[str]
) -> None:
    package = app_with(tmp_path, privacy)
    node = {"site": "zoo", "images": str(tmp_path / "secret.csv")}
    sentence = "keeps a ledger of what it sends"
    if privacy is None:
        node["ledger"] = str(tmp_path / "releases.jsonl")
        sentence = "asks for updates without noise; this site sends none"
    with pytest.raises(DeploymentError, match=sentence):
        open_site(App.read(package), node, ["zoo"], privacy=privacy)
    if privacy:
        nowhere = {**node, "ledger": str(tmp_path / "nowhere" / "releases.jsonl")}
        with pytest.raises(DeploymentError, match="there is no folder"):
            open_site(App.read(package), nowhere, ["zoo"], privacy=privacy)
    settings = {"sites": '["zoo"]', "count-rounding": 1}
    if privacy:
        settings |= {"dp-noise-multiplier": 2.0, "dp-clip": 0.5}
    answer = Answering().answer(Request("query", str(package), node, settings), RecordDict())
    assert {key: dict(value) for key, value in answer.items()} == {"failed": {"fault": "it failed"}}
    assert sentence in capsys.readouterr().err


def private_app(
    place: Path, own: Mapping[str, str] | None = None, **options: Any
) -> tuple[Path, dict[str, Any], Wire]:
    """Write an app of a benchmark; return it, its settings, and sites that answer as it says.

    ``own`` are settings of the second site.
    """
    config = Config(
        dataset="own_parts:few_glyphs", net="own_parts:SmallNet", clients=2, alpha=0.5,
        max_children=4,
        join_ratio=1.0, rounds=2, validation="clients", client_time_limit=10.0,
    ).complete()  # fmt: skip
    operation = Operation(["museum", "zoo"], place / "run", privacy=PRIVACY)
    write_app(place / "app", App(config, None), operation)
    text = (place / "app" / "pyproject.toml").read_text()
    settings = {**tomllib.loads(text)["tool"]["flwr"]["app"]["config"], **options}
    package = place / "app" / "fedgrain_app"

    def site(number: int) -> Answer:
        node = {"partition-id": number, "ledger": str(place / f"{number}.jsonl")}
        node["trust-code"] = True
        node |= own or {} if number else {}
        return through(package, node, settings)

    return package, settings, Wire({10: site(0), 11: site(1)})


def test_a_site_spends_no_more_than_its_owner_allows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    most = (PRIVACY.epsilon(1) + PRIVACY.epsilon(2)) / 2  # enough for one update
    (tmp_path / "site.toml").write_text(f"[leaves]\nnoise = 2.0\nepsilon = {most}\n")
    own = {"policy": str(tmp_path / "site.toml"), "record": str(tmp_path / "zoo.jsonl")}
    package, settings, wire = private_app(tmp_path, own)
    serve(wire, package, settings)
    lines = RunFolder(tmp_path / "run").metrics_lines()
    trained = [[client["client"] for client in line["clients"]] for line in lines]
    assert trained == [["museum", "zoo"], ["museum"]]
    (fault,) = lines[1]["faults"]
    assert fault["kind"] == "declined" and "by leaves.epsilon: epsilon would be" in fault["fault"]
    assert "declined train: leaves.epsilon" in capsys.readouterr().err
    assert read_audit(tmp_path / "zoo.jsonl").epsilon == PRIVACY.epsilon(1)
    assert len((tmp_path / "1.jsonl").read_text().splitlines()) == 1  # the ledger


def test_a_server_cannot_make_epsilon_small_by_a_delta_of_its_own(tmp_path: Path) -> None:
    """As ``flwr run -c dp-delta=0.9999999`` would: at such a delta everything costs nothing."""
    (tmp_path / "site.toml").write_text("[leaves]\nnoise = 2.0\nepsilon = 800.0\n")
    own = {"policy": str(tmp_path / "site.toml"), "record": str(tmp_path / "zoo.jsonl")}
    package, settings, wire = private_app(tmp_path, own, **{"dp-delta": 0.9999999})
    serve(wire, package, settings)
    for line in RunFolder(tmp_path / "run").metrics_lines():
        (fault,) = line["faults"]
        assert "by leaves.delta: delta is 1, the most is 1e-05" in fault["fault"]
    assert not (tmp_path / "1.jsonl").exists()  # nothing was sent


def test_a_resumed_run_pays_for_the_round_it_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package, settings, wire = private_app(tmp_path)
    answer = wire.sites[11]

    def killed_in_round_two(message: Message) -> RecordDict:
        if message.content.config_records.get("about", {}).get("round") == 2:
            raise KeyboardInterrupt  # museum has answered, the round is not over
        return answer(message)

    wire.sites[11] = killed_in_round_two
    with pytest.raises(KeyboardInterrupt):
        serve(wire, package, settings)
    assert not (tmp_path / "run" / "result.json").exists()
    _, other, wire = private_app(tmp_path, **{"dp-clip": 0.4})
    with pytest.raises(RunError, match="started with differential privacy"):
        serve(wire, package, other)
    _, settings, wire = private_app(tmp_path)
    serve(wire, package, settings)

    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["rounds"] == 2 and result["validation_hf"] is None
    told = result["privacy"]
    assert told["releases_by_site"] == {"museum": 3, "zoo": 3} and told["releases"] == 3
    assert told["epsilon"] == PRIVACY.epsilon(3) > PRIVACY.epsilon(2)
    assert (told["delta"], told["noise_multiplier"], told["clip"]) == (1e-5, 2.0, 0.5)
    assert told["noise_to_sensitivity"] == 1.0 and "replaced by any other" in told["unit"]
    rounds = [
        [json.loads(line)["round"] for line in (tmp_path / f"{n}.jsonl").read_text().splitlines()]
        for n in (0, 1)
    ]
    assert rounds == [[1, 2, 2], [1, 2]]  # zoo was asked thrice, and had sent two
    weights = load(tmp_path / "run", trust_code=True).net.state_dict()
    assert all(bool(value.isfinite().all()) for value in weights.values())
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert all(client["loss"] is None for client in json.loads(lines[0])["clients"])
    (line,) = (text for text in capsys.readouterr().out.splitlines() if "fedavg 1:" in text)
    assert "not validated" in line

    assert main(["report", str(tmp_path / "run")]) == 0  # a page of a run without a score

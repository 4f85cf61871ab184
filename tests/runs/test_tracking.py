"""Logs are read back with the trackers' own libraries."""

import json
import sys

import pytest

from fedgrain import Callback, run
from fedgrain.checked_json import read_checked_json
from fedgrain.cli import main
from fedgrain.errors import ReportError
from fedgrain.runs.run_folder import RunFolder
from fedgrain.runs.tracking import Tracking, result_metrics, round_metrics
from fedgrain.studies.study import Study


def scalars(folder):
    """What TensorBoard finds: (step, value) by tag, and the texts."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(str(folder / "tensorboard"), size_guidance={"tensors": 0, "scalars": 0})
    log.Reload()
    found = {t: [(e.step, e.value) for e in log.Scalars(t)] for t in log.Tags()["scalars"]}
    texts = {
        tag: log.Tensors(tag)[0].tensor_proto.string_val[0].decode()
        for tag in log.Tags()["tensors"]
    }
    return found, texts


def expected(folder):
    """What ought to be there, from the run's own files."""
    wanted = {}
    for line in RunFolder(folder).metrics_lines():
        for name, value in round_metrics(line).items():
            wanted.setdefault(name, []).append((line["round"], value))
    result = read_checked_json(folder / "result.json")
    for name, value in result_metrics(result).items():
        wanted[name] = [(result["rounds"], value)]
    return wanted


def close_to(wanted):
    return {n: [(s, pytest.approx(v, rel=1e-6)) for s, v in points] for n, points in wanted.items()}


def test_tensorboard_reads_every_round_of_both_stages(small, tmp_path):
    config, folder = small(algorithm="fedbdft"), tmp_path / "run"
    run(config, folder, [Tracking("tensorboard").callback(config, folder)])
    found, texts = scalars(folder)
    wanted = expected(folder)
    assert [step for step, _ in wanted["fedavg/validation_hf"]] == [1, 2, 3]
    assert [step for step, _ in wanted["fedbdft/validation_hf"]] == [1, 2]
    assert found == close_to(wanted)
    text = texts["config/text_summary"]
    assert '    algorithm = "fedbdft"' in text
    assert "    max_children = 4" in text


class StopAfter(Callback):
    def __init__(self, rounds):
        self.rounds = rounds

    def on_round_end(self, line):
        if line["round"] == self.rounds:
            raise KeyboardInterrupt


def test_a_resumed_run_goes_on_in_its_log(small, tmp_path):
    config, folder = small(), tmp_path / "run"
    tracking = Tracking("tensorboard")
    for stop in (1, 2):  # first without a tracker, then with one
        trackers = [tracking.callback(config, folder)] if stop == 2 else []
        with pytest.raises(KeyboardInterrupt):
            run(config, folder, [*trackers, StopAfter(stop)])
    run(config, folder, [tracking.callback(config, folder)])
    assert scalars(folder)[0] == close_to(expected(folder))


@pytest.fixture
def mlflow_store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


@pytest.mark.filterwarnings("ignore")  # of MLflow and its database
def test_mlflow_reads_every_round_and_the_config(small, tmp_path, mlflow_store):
    config, folder = small(), tmp_path / "a run"
    tracking = Tracking("mlflow", "my study")
    tracking.prepare()
    with pytest.raises(KeyboardInterrupt):
        run(config, folder, [tracking.callback(config, folder), StopAfter(2)])
    run(config, folder, [tracking.callback(config, folder)])

    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("my study")
    (logged,) = client.search_runs([experiment.experiment_id])
    assert (logged.info.run_name, logged.info.status) == ("a run", "FINISHED")
    wanted = expected(folder)
    found = {
        name: [(m.step, m.value) for m in client.get_metric_history(logged.info.run_id, name)]
        for name in logged.data.metrics
    }
    assert found == close_to(wanted)
    settings = config.complete().settings()
    assert logged.data.params == {n: str(v) for n, v in settings.items() if v is not None}


WANDB = """
import sys, fedgrain
from fedgrain.config.config_texts import read_config
from fedgrain.runs.tracking import Tracking

class StopAfter(fedgrain.Callback):
    def on_round_end(self, line):
        if line["round"] == int(sys.argv[3]):
            raise KeyboardInterrupt

config = read_config(sys.argv[1])
tracking = Tracking("wandb", "my study")
tracking.prepare()
try:
    fedgrain.run(config, sys.argv[2], [tracking.callback(config, sys.argv[2]), StopAfter()])
except KeyboardInterrupt:
    pass
"""


def wandb_records(path):
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    log = DataStore()
    log.open_for_scan(str(path))
    while (packed := log.scan_data()) is not None:
        yield Record.FromString(packed)
    log.close()


def test_wandb_reads_every_round_and_the_config(small, python, tmp_path):
    """Offline, in a process for each part of the run, as a user would go on with it."""
    config, folder = small(), tmp_path / "a run"
    (tmp_path / "config.toml").write_text(config.toml())
    for stop in (2, 99):
        given = (tmp_path / "config.toml", folder, stop)
        done = python(WANDB, *given, WANDB_MODE="offline", WANDB_SILENT="true")
        assert done.returncode == 0, done.stderr
    found, told = {}, []
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        for record in wandb_records(path):
            if record.HasField("run"):
                settings = {u.key: json.loads(u.value_json) for u in record.run.config.update}
                told.append((record.run.run_id, record.run.project, record.run.display_name))
            elif record.HasField("history"):
                items = [(i.key or "/".join(i.nested_key), i) for i in record.history.item]
                line = {name: json.loads(item.value_json) for name, item in items}
                for name in line.keys() - {"round", "_step", "_runtime", "_timestamp"}:
                    found.setdefault(name, []).append((line["round"], line[name]))
    assert found == close_to(expected(folder))
    assert len(told) == 2 and len(set(told)) == 1  # two parts of one run
    assert told[0] == ((folder / "wandb-run.txt").read_text().strip(), "my study", "a run")
    settings.pop("_wandb")
    assert settings == config.complete().settings()


def test_a_tracker_that_cannot_start_is_one_sentence(small, tmp_path, monkeypatch, capsys):
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    (tmp_path / "config.toml").write_text(small().toml())
    given = [str(tmp_path / "config.toml"), "--trust-code", "--workers", "1"]
    assert main(["run", *given, "--out", str(tmp_path / "run"), "--track", "wandb"]) == 2
    assert "wandb does not start: No API key configured" in capsys.readouterr().err
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://x")
    assert main(["run", *given, "--out", str(tmp_path / "other"), "--track", "mlflow"]) == 2
    assert "check MLFLOW_TRACKING_URI" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_study_tracks_its_runs(small, tmp_path, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    from fedgrain.studies.execute import run_study

    class Quiet:
        def start(self, what, total, done):
            pass

        def finished(self, name, problem):
            assert problem is None

    settings = {"net": "own_parts:SmallNet", "clients": 4, "max_children": 4, "rounds": 2,
                "cycles": 1}  # fmt: skip
    methods = ("cond-softmax/paper", "fedbdft/paper")
    study = Study("two", ("own_parts:few_glyphs",), methods, (0.5,), (47,), settings=settings)
    with ThreadPoolExecutor(1) as executor:
        run_study(study, tmp_path, executor, Quiet(), Tracking("tensorboard", "two"))
    folders = sorted((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    for folder in folders:
        found = scalars(folder)[0]
        assert found == close_to(expected(folder))
        assert len(found["fedavg/validation_hf"]) == 2  # fedbdft took its first stage over


def test_trackers_that_are_not_there(tmp_path, monkeypatch, capsys):
    with pytest.raises(ReportError, match="no tracker 'paper'; choose one of tensorboard"):
        Tracking("paper").prepare()
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr("fedgrain.runs.tracking.find_spec", lambda name: None)
    out = tmp_path / "run"
    assert main(["run", "--track", "tensorboard", "--out", str(out)]) == 2
    assert "needs the extra: pip install 'fedgrain[tensorboard]'" in capsys.readouterr().err
    assert not out.exists()


def test_track_on_the_command_line(tmp_path, capsys):
    out = tmp_path / "run"
    settings = ["--dataset", "own_parts:few_glyphs", "--net", "own_parts:SmallNet", "--clients"]
    settings += ["4", "--alpha", "0.5", "--max-children", "4", "--rounds", "1"]
    assert main(["run", *settings, "--track", "tensorboard", "--out", str(out)]) == 0
    assert scalars(out)[0] == close_to(expected(out))

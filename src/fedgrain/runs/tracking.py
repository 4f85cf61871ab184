"""Log the config and the metrics of every round to TensorBoard, MLflow or W&B.

Each is a callback, so a run does not depend on it. Nothing is imported until a tracker is used.
A resumed run continues in the same log; rounds from before it was tracked, or taken over from
another run, are logged first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

from fedgrain.catalogue import TRACKERS
from fedgrain.config.config import Config
from fedgrain.errors import ReportError
from fedgrain.files import read_text, write_text
from fedgrain.runs.rounds import Callback
from fedgrain.runs.run_folder import RunFolder

_VALIDATION = ("leaf_hf", "leaf_share", "weighted_hf")  # logged besides the HF over all labels
RESULTS = ("hf", "hr", "hp", "accuracy", "validation_hf", "seen_hf", "unseen_hf", "rounds",
           "cycles", "seconds")  # fmt: skip


@dataclass(frozen=True)
class Tracking:
    """Which tracker, and the group of runs (MLflow's experiment, W&B's project) to log into."""

    tracker: str
    group: str = "fedgrain"

    def prepare(self) -> None:
        """Refuse a missing tracker before anything runs; create MLflow's experiment.

        The processes of a study would conflict if each created it.
        """
        if self.tracker not in TRACKERS:
            raise ReportError(
                f"there is no tracker {self.tracker!r}; choose one of {', '.join(TRACKERS)}"
            )
        if find_spec(TRACKERS[self.tracker]) is None:
            raise ReportError(
                f"--track {self.tracker} needs the extra: pip install 'fedgrain[{self.tracker}]'"
            )
        if self.tracker == "mlflow":
            _mlflow_experiment(self.group)

    def callback(self, config: Config, folder: str | Path) -> Callback:
        """Return the callback that logs one run."""
        kinds = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WeightsAndBiases}
        return kinds[self.tracker](config.complete(), RunFolder(folder), self.group)


def round_metrics(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a round under the names they are logged by.

    >>> round_metrics({"stage": "fedavg", "round": 2, "validation_hf": 0.5, "seconds": 1.0,
    ...                "clients": [{"loss": 1.0}, {"loss": 3.0}], "faults": []})
    {'fedavg/validation_hf': 0.5, 'fedavg/clients': 2.0, 'fedavg/faults': 0.0, \
'fedavg/seconds': 1.0, 'fedavg/loss': 2.0}
    """
    score = line["validation_hf"]  # None without validation images
    numbers = {
        **({} if score is None else {"validation_hf": float(score)}),
        **_against_what(line.get("validation")),
        "clients": float(len(line["clients"])),
        "faults": float(len(line["faults"])),
        "seconds": float(line["seconds"]),
    }
    losses = [client["loss"] for client in line["clients"] if client.get("loss") is not None]
    if losses:
        numbers["loss"] = fmean(losses)
    return {f"{line['stage']}/{name}": value for name, value in numbers.items()}


def _against_what(validation: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the other validation scores of a round; they say what the first is worth."""
    found = {f"validation_{name}": (validation or {}).get(name) for name in _VALIDATION}
    return {name: float(value) for name, value in found.items() if value is not None}


def result_metrics(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores a run ended with."""
    found = {name: result.get(name) for name in RESULTS}
    return {f"result/{name}": float(value) for name, value in found.items() if value is not None}


class Tracker(Callback):
    """Base class of the trackers: the log opens at the first tracked round."""

    def __init__(self, config: Config, place: RunFolder, group: str) -> None:
        self.config, self.place, self.group = config, place, group
        self.opened = False

    def open(self) -> bool:
        """Open the log; return whether it is new."""
        raise NotImplementedError

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log numbers of one round."""
        raise NotImplementedError

    def close(self) -> None:
        """End the log."""
        raise NotImplementedError

    def _start(self) -> None:
        if self.opened:
            return
        self.opened = True
        if self.open():
            for line in self.place.metrics_lines():
                self.log(round_metrics(line), line["round"])

    def on_round_start(self, stage: str, number: int) -> None:
        """Open the log before the first round and log the earlier rounds of ``metrics.jsonl``."""
        self._start()

    def on_round_end(self, line: dict[str, Any]) -> None:
        """Log a round."""
        self.log(round_metrics(line), line["round"])

    def on_run_end(self, result: dict[str, Any]) -> None:
        """Log the scores and close."""
        self._start()
        self.log(result_metrics(result), result["rounds"])
        self.close()


class TensorBoard(Tracker):
    """Logs into ``tensorboard/`` of the run folder: give --logdir any folder above."""

    def open(self) -> bool:
        """Open the log, and put the config in as a text."""
        from torch.utils.tensorboard import SummaryWriter

        folder = self.place.path / "tensorboard"
        new = not folder.exists()
        self.writer: Any = SummaryWriter(str(folder))
        if new:
            indented = "\n".join(f"    {line}" for line in self.config.toml().splitlines())
            self.writer.add_text("config", indented)
        return new

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log numbers of one round; a run that is killed keeps them."""
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self) -> None:
        """End the log."""
        self.writer.close()


class MLflow(Tracker):
    """Logs where MLFLOW_TRACKING_URI says (MLflow's default: mlflow.db), an experiment per study.

    ``mlflow-run.txt`` in the run folder keeps the id of MLflow's run, for a run that is resumed.
    """

    def open(self) -> bool:
        """Continue MLflow's run, or create one with the config as its parameters."""
        self.client, experiment = _mlflow_experiment(self.group)
        remembered = self.place.path / "mlflow-run.txt"
        if remembered.exists():
            self.run_id = read_text(remembered).strip()
            self.client.update_run(self.run_id, status="RUNNING")
            return False
        name = self.place.path.resolve().name
        self.run_id = self.client.create_run(experiment, run_name=name).info.run_id
        from mlflow.entities import Param

        settings = self.config.settings().items()
        parameters = [Param(key, str(value)) for key, value in settings if value is not None]
        self.client.log_batch(self.run_id, params=parameters)
        write_text(remembered, f"{self.run_id}\n")
        return True

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log numbers of one round in one call."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        found = [Metric(name, value, now, step) for name, value in metrics.items()]
        self.client.log_batch(self.run_id, metrics=found)

    def close(self) -> None:
        """Mark the run as finished."""
        self.client.set_terminated(self.run_id, "FINISHED")


def _mlflow_experiment(name: str) -> tuple[Any, str]:
    """Return MLflow's client and the id of an experiment, made if it is not there."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # we send nothing anywhere by default
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        client = MlflowClient()
        found = client.get_experiment_by_name(name)
        return client, found.experiment_id if found else client.create_experiment(name)
    except MlflowException as error:
        raise ReportError(
            f"MLflow does not answer: {str(error).splitlines()[0]}; check MLFLOW_TRACKING_URI"
        ) from error


class WeightsAndBiases(Tracker):
    """Logs as ``wandb`` is set up (WANDB_MODE=offline keeps all here), a project per study."""

    def open(self) -> bool:
        """Open the log under an id that a resumed run uses again."""
        import wandb

        remembered = self.place.path / "wandb-run.txt"
        new = not remembered.exists()
        try:
            self.run: Any = wandb.init(
                project=self.group,
                id=None if new else read_text(remembered).strip(),
                name=self.place.path.resolve().name,
                config=self.config.settings(),
                dir=str(self.place.path),
                resume="allow",
            )
        except wandb.Error as error:
            raise ReportError(
                f"wandb does not start: {error}; log in with: wandb login, or set "
                "WANDB_MODE=offline, which keeps everything local"
            ) from error
        write_text(remembered, f"{self.run.id}\n")
        return new

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log numbers of one round; each stage counts from 1, so the step is logged separately."""
        self.run.log({**metrics, "round": step})

    def close(self) -> None:
        """End the log."""
        self.run.finish()

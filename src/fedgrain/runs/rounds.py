"""The rounds of a run, on whichever engine: train, keep every round, test the final model."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fedgrain.config.config import Config
from fedgrain.errors import RunError
from fedgrain.federated import Engine
from fedgrain.federated.algorithm import FederatedAlgorithm
from fedgrain.federated.averaging import State
from fedgrain.federated.faults import tracebacks_kept
from fedgrain.models.model_folder import ModelDescription
from fedgrain.models.trunk_place import embed
from fedgrain.preparation.prepare import Prepared
from fedgrain.runs.calibrate import Calibrator, on_validation
from fedgrain.runs.checkpoint import RunProgress, load_progress, save_progress
from fedgrain.runs.result import Result, result_values
from fedgrain.runs.run_folder import RunFolder


class Callback:
    """Hooks into a run; override those you need."""

    def on_run_start(self, plan: Sequence[str]) -> None:
        """Act before the first round; ``plan`` says in lines of text what the run will do."""

    def on_round_start(self, stage: str, number: int) -> None:
        """Act before a round, or a cycle, of a stage of the algorithm."""

    def on_round_end(self, line: dict[str, Any]) -> None:
        """Act after a round; ``line`` is its line in ``metrics.jsonl``."""

    def on_run_end(self, result: dict[str, Any]) -> None:
        """Act at the end; ``result`` is the content of ``result.json``."""


@contextmanager
def disk_space(place: RunFolder | None) -> Iterator[None]:
    """Raise a clear error when the disk is full; the files then hold the last complete round."""
    try:
        yield
    except OSError as error:
        if place is None or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise RunError(
            f"{place.path}: cannot write ({error.strerror}); make room and give the same command "
            "again: the run continues from its last complete round"
        ) from None


class _KeptLines(Callback):
    """Keeps the line of every round, for a run that no folder keeps."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def on_round_end(self, line: dict[str, Any]) -> None:
        self.lines.append(line)


@dataclass(frozen=True)
class ReadyRun:
    """What a run needs before its first round, apart from an engine."""

    config: Config
    algorithm: FederatedAlgorithm[Any]
    description: ModelDescription
    initial: State  # the weights before the first round
    prepared: Prepared | None  # with the images to test on; None if there are none here


def train_and_test(
    ready: ReadyRun,
    engine: Engine,
    place: RunFolder | None,
    callbacks: Sequence[Callback],
    about: Callable[[], Mapping[str, Any]] = dict,
    calibrator: Calibrator | None = None,
) -> Result:
    """Run the remaining rounds on an engine, test the final model and write the result.

    ``about`` is called at the end and returns further entries of the result. ``calibrator`` is how
    the model is calibrated, where the validation images are not here.
    """
    kept = _KeptLines()
    with disk_space(place):
        progress = _train_rounds(ready, engine, place, (*callbacks, kept))
        final = ready.algorithm.final_model(progress.state, engine)
        model = ready.description.with_weights(final.weights, by_branch=final.by_branch)
        if calibrator is None and ready.prepared is not None:
            calibrator = on_validation(ready.prepared.federation)
        if calibrator is not None:
            model = replace(model, calibration=calibrator(model))
        values = result_values(ready.config, ready.prepared, model, final, progress)
        values = {**values, **about()}
        if place:
            model.save(place.path, final.weights)
            if ready.config.embed_trunk and model.trunk is not None:
                embed(model.trunk, place.path)
            place.write_result(values, progress.lines)
    for callback in callbacks:
        callback.on_run_end(values)
    if place:
        return Result(values, model, place.path)
    return Result(values, model, None, tuple(kept.lines))


def _train_rounds(
    ready: ReadyRun, engine: Engine, place: RunFolder | None, callbacks: Sequence[Callback]
) -> RunProgress:
    """Run the remaining rounds from the last saved state."""
    algorithm = ready.algorithm
    progress = RunProgress(algorithm.init(ready.initial))
    if place and place.state.exists():
        progress = load_progress(place.state, algorithm)
        place.check_lines(progress.lines, progress.metrics_sha256)
    if place:
        place.keep_lines(progress.lines)
    while True:
        progress = replace(progress, state=algorithm.next_stage(progress.state, engine))
        if algorithm.finished(progress.state, engine):
            return progress
        for callback in callbacks:
            callback.on_round_start(*algorithm.next_round(progress.state))
        began, before = time.perf_counter(), len(engine.retries)
        spent = _core_seconds(engine)
        with tracebacks_kept(place.faults if place else None):
            state, report = algorithm.apply(progress.state, engine)
        took = time.perf_counter() - began
        retries = engine.retries[before:]
        line = {**report.line(), "seconds": round(took, 3)}
        if retries:
            line["retries"] = list(retries)
        progress = replace(
            progress,
            state=state,
            lines=progress.lines + 1,
            seconds=progress.seconds + took,
            core_seconds=progress.core_seconds + _core_seconds(engine) - spent,
            bytes_sent=progress.bytes_sent + report.bytes_sent,
            faults=progress.faults + len(report.faults),
            retries=progress.retries + len(retries),
        )
        if place:
            place.add_line(line)
            progress = replace(progress, metrics_sha256=place.metrics_digest(progress.lines))
            save_progress(place.state, progress, algorithm)
        for callback in callbacks:
            callback.on_round_end(line)


def _core_seconds(engine: Engine) -> float:
    """Return the time on cores that this process and the engine's workers have used so far."""
    return time.process_time() + float(getattr(engine, "worker_seconds", 0.0))

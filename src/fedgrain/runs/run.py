"""One run: prepare, train, test. It can be stopped at any moment and resumed.

Between two rounds everything is in one file (:mod:`fedgrain.runs.checkpoint`), and whatever
is random in a round derives from the seed and the round's number. So a run that was killed gives
the same bits as one that was not. Scope: one build of torch and numpy, on the CPU, with one thread;
in native arithmetic on one kind of CPU, in portable arithmetic on every x86-64 with AVX2
(:mod:`fedgrain.arithmetic`). Not on ARM against x86-64, and on CUDA results are only close.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedgrain.arithmetic import one_thread
from fedgrain.catalogue import algorithm as algorithm_entry
from fedgrain.engines import ClientTrainer
from fedgrain.engines.shared_images import shared
from fedgrain.errors import ConfigError, RunError
from fedgrain.federated import Engine
from fedgrain.federated.algorithm import FederatedAlgorithm, build_algorithm
from fedgrain.federated.averaging import State
from fedgrain.federated.faults import tracebacks_kept
from fedgrain.models.model_folder import ModelDescription, load
from fedgrain.models.trunk_place import embed
from fedgrain.plugins import Trust, check_trust
from fedgrain.preparation.by_data import completed
from fedgrain.preparation.config import Config
from fedgrain.preparation.plan import plan_of
from fedgrain.preparation.prepare import Prepared, prepare
from fedgrain.preparation.trunk import with_weights_hash
from fedgrain.runs.checkpoint import RunProgress, load_progress, save_progress
from fedgrain.runs.engine_choice import device_named, engine_of, number_of_workers
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


def run(
    config: Config,
    folder: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    *,
    workers: int | str = "auto",
    device: str = "auto",
) -> Result:
    """Train and test one model as configured.

    With a ``folder`` the run is kept there, and resumed if it was interrupted. A finished run is
    returned as it is, unless the config now allows more rounds: then it continues. Without a
    folder nothing is written. ``workers`` is the number of processes that train clients, or "auto"
    for one per core; it does not change the result. ``device`` is "cpu", "cuda" or "auto";
    on CUDA results are close, but not equal to the bit.
    """
    if config.server_optimizer == "none" and (config.server_lr, config.server_momentum) != (1, 0):
        raise ConfigError(
            "server_lr and server_momentum need an optimizer at the server; choose one with "
            "server_optimizer, or leave them out"
        )
    place = RunFolder(folder) if folder is not None else None
    with place.locked() if place else nullcontext(), one_thread():
        config = completed(config, place.begun() if place else None)
        if place:
            place.check(config)
            if place.finished(config) and place.same_places(config):
                return _stored(place, config)
        config = with_weights_hash(config)
        if place:
            place.check(config)
        prepared = prepare(config)
        algorithm = build_algorithm(config.algorithm, prepared.settings)
        fingerprint = prepared.data.fingerprint
        if place:
            place.check_data(fingerprint)
            if place.finished(config):
                return _stored(place, config)
            if place.result.exists() and place.state.exists():
                load_progress(
                    place.state, algorithm
                )  # find a damaged one before the result is given up
        processes, device = number_of_workers(workers, prepared), device_named(device)
        if processes > 1:
            prepared = prepared.with_rows(shared(prepared.federation.source.array))
        trainer = ClientTrainer(prepared.federation, prepared.spec, prepared.settings, device)
        if algorithm_entry(config.algorithm).by_branch:
            _ = trainer.model.branch_nets  # refuse now a net that cannot be decoupled
        with disk_space(place):
            if place:
                place.claim(config, fingerprint)
            for callback in callbacks:
                callback.on_run_start(plan_of(config, prepared))
            with engine_of(trainer, processes, config.client_time_limit) as engine:
                ready = ReadyRun(
                    config, algorithm, prepared.description, trainer.model.initial, prepared
                )
                return train_and_test(ready, engine, place, callbacks)


def resume(
    folder: str | Path,
    callbacks: Sequence[Callback] = (),
    *,
    workers: int | str = "auto",
    device: str = "auto",
    trust_code: Trust = False,
) -> Result:
    """Resume the run in a folder.

    A config that names code (``module:callable``) is refused unless ``trust_code`` is set.
    """
    place = RunFolder(folder)
    if not place.config.exists():
        raise RunError(f"{folder}: no run here (there is no {place.config.name})")
    config = place.read_config()
    check_trust(config.settings(), place.config, trust_code, RunError)
    return run(config, folder, callbacks, workers=workers, device=device)


def _stored(place: RunFolder, config: Config) -> Result:
    """Return the result of a finished run; the code its config names is trusted."""
    return Result(place.read_result(), load(place.path, trust_code=config.code()), place.path)


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
) -> Result:
    """Run the remaining rounds on an engine, test the final model and write the result.

    ``about`` is called at the end and returns further entries of the result.
    """
    kept = _KeptLines()
    with disk_space(place):
        progress = _train_rounds(ready, engine, place, (*callbacks, kept))
        final = ready.algorithm.final_model(progress.state, engine)
        model = ready.description.with_weights(final.weights, by_branch=final.by_branch)
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
            faults=progress.faults + len(report.faults),
            retries=progress.retries + len(retries),
        )
        if place:
            place.add_line(line)
            progress = replace(progress, metrics_sha256=place.metrics_digest(progress.lines))
            save_progress(place.state, progress, algorithm)
        for callback in callbacks:
            callback.on_round_end(line)

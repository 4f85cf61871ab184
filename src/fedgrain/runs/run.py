"""One run: prepare, train, test. It can be stopped at any moment and resumed.

Between two rounds everything is in one file (:mod:`fedgrain.runs.checkpoint`), and whatever
is random in a round derives from the seed and the round's number. So a run that was killed gives
the same bits as one that was not. Scope: one build of torch and numpy, on the CPU, with one thread;
in native arithmetic on one kind of CPU, in portable arithmetic on every x86-64 with AVX2
(:mod:`fedgrain.arithmetic`). Not on ARM against x86-64, and on CUDA results are only close.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from fedgrain.arithmetic import one_thread
from fedgrain.config.by_data import completed
from fedgrain.config.config import Config
from fedgrain.config.config_checks import check_server
from fedgrain.errors import RunError
from fedgrain.federated.algorithm import build_algorithm
from fedgrain.models.model_folder import load
from fedgrain.plugins import Trust, check_trust
from fedgrain.preparation.plan import plan_of
from fedgrain.preparation.prepare import prepare
from fedgrain.preparation.trunk import with_weights_hash
from fedgrain.runs.checkpoint import load_progress
from fedgrain.runs.engine_choice import device_named, engine_of, number_of_workers, trainer_of
from fedgrain.runs.result import Result
from fedgrain.runs.rounds import Callback, ReadyRun, disk_space, train_and_test
from fedgrain.runs.run_folder import RunFolder


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
    check_server(config)
    place = RunFolder(folder) if folder is not None else None
    with place.locked() if place else nullcontext(), one_thread():
        config = completed(config, place.begun() if place else None)
        if place:
            place.check(config)
            if place.finished(config) and place.same_places(config):
                _warn_of_other_labels(place, config)
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
        prepared, trainer = trainer_of(prepared, processes, device)
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


def _warn_of_other_labels(place: RunFolder, config: Config) -> None:
    if place.label_files_changed(config):
        warnings.warn(
            f"{place.path}: the run is finished, but its manifest, taxonomy or knowledge file has "
            "changed since: the result is that of the earlier one; to train on the present labels, "
            "choose another folder (--out)",
            stacklevel=3,
        )


def _stored(place: RunFolder, config: Config) -> Result:
    """Return the result of a finished run; the code its config names is trusted."""
    return Result(place.read_result(), load(place.path, trust_code=config.code()), place.path)

"""One run: prepare, train, test; stopped at any moment it goes on where it was.

Between two rounds everything is in one file (:mod:`fedgrain.experiment.checkpoint`), and whatever
is random in a round derives from the seed and the round's number. So a run that was killed gives
the same bits as one that was not. Scope: one build of torch, on the CPU, with one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedgrain.errors import RunError
from fedgrain.experiment.checkpoint import Progress, load_progress, save_progress
from fedgrain.experiment.config import Config, read_config
from fedgrain.experiment.folder import RunFolder, read_json, write_json
from fedgrain.experiment.prepare import Prepared, prepare
from fedgrain.experiment.trained import Prediction, TrainedModel, load, model_net
from fedgrain.federated import SequentialEngine, Workshop, fedavg, fedbdft
from fedgrain.federated.averaging import State
from fedgrain.federated.fedavg import FedAvgState
from fedgrain.federated.fedbdft import FedBdftState
from fedgrain.metrics import Summary, cut_back, numbers_in, summarise


class Callback:
    """What a user may hook into; override what is needed."""

    def on_round_start(self, stage: str, number: int) -> None:
        """Act before a round of fedavg or a cycle of fedbdft."""

    def on_round_end(self, line: dict[str, Any]) -> None:
        """Act on the line that goes to ``metrics.jsonl``."""

    def on_run_end(self, result: dict[str, Any]) -> None:
        """Act on what goes to ``result.json``."""


@dataclass(frozen=True, eq=False)
class Result:
    """How a run ended, and the model it learned."""

    values: dict[str, Any]
    model: TrainedModel
    folder: Path | None

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(
                f"a result has no {name!r}; it has {', '.join(self.values)}"
            ) from None

    def predict(self, images: NDArray[np.uint8], **rule: Any) -> list[Prediction]:
        """Predict a path for each image [images, height, width, channels]."""
        return self.model.predict(images, **rule)


def run(
    config: Config, folder: str | Path | None = None, callbacks: Sequence[Callback] = ()
) -> Result:
    """Train and test as the config says.

    With a ``folder`` the run is kept there, and resumed if it was interrupted; a finished one is
    returned as it is. Without, nothing is written.
    """
    place = RunFolder(folder) if folder is not None else None
    with place.locked() if place else nullcontext(), one_thread():
        if place:
            place.claim(config)
            if place.result.exists():
                return Result(read_json(place.result), load(place.path), place.path)
        prepared = prepare(config)
        workshop = Workshop(prepared.federation, prepared.model, prepared.plan)
        progress = _train(prepared, workshop, place, callbacks)
        state = _best_state(progress)
        model = _trained_model(prepared, workshop, progress, state)
        values = _result(config, prepared, workshop, progress)
        if place:
            model.save(place, state)
            write_json(place.result, values)
        for callback in callbacks:
            callback.on_run_end(values)
        return Result(values, model, place.path if place else None)


def resume(folder: str | Path, callbacks: Sequence[Callback] = ()) -> Result:
    """Go on with the run in a folder."""
    place = RunFolder(folder)
    if not place.config.exists():
        raise RunError(f"{folder}: no run here (there is no {place.config.name})")
    return run(read_config(place.config), folder, callbacks)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute in one thread: the sums come out the same on every machine size."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _train(
    prepared: Prepared, workshop: Workshop, place: RunFolder | None, callbacks: Sequence[Callback]
) -> Progress:
    """Run all rounds that are left, from the last whole state."""
    plan, engine = prepared.plan, SequentialEngine(workshop)
    progress = Progress(fedavg.init(workshop.initial, plan), 0, 0.0)
    if place and place.state.exists():
        progress = load_progress(place.state)
    if place:
        place.keep_lines(progress.lines)
    while True:
        state, began = progress.state, time.perf_counter()
        new_state: FedAvgState | FedBdftState
        if isinstance(state, FedBdftState):
            if fedbdft.finished(state, plan, engine):
                return progress
            _announce(callbacks, "fedbdft", state.cycle + 1)
            new_state, report = fedbdft.apply(state, plan, engine)
        elif not fedavg.finished(state, plan):
            _announce(callbacks, "fedavg", state.round + 1)
            new_state, report = fedavg.apply(state, plan, engine)
        elif prepared.algorithm == "fedbdft":
            decoupled = fedbdft.init(workshop.decoupled(state.best), plan, engine)
            progress = replace(progress, state=decoupled, first_stage_rounds=state.round)
            if place:
                save_progress(place.state, progress)
            continue
        else:
            return progress
        took = time.perf_counter() - began
        line = {**report.line(), "seconds": round(took, 3)}
        progress = Progress(
            new_state, progress.lines + 1, progress.seconds + took, progress.first_stage_rounds
        )
        if place:
            place.add_line(line)
            save_progress(place.state, progress)
        for callback in callbacks:
            callback.on_round_end(line)


def _announce(callbacks: Sequence[Callback], stage: str, number: int) -> None:
    for callback in callbacks:
        callback.on_round_start(stage, number)


def _best_state(progress: Progress) -> State:
    """Return the best weights under the names the model gives them."""
    state = progress.state
    if not isinstance(state, FedBdftState):
        return state.best
    return {
        f"branches.{number}.{name}": value
        for number, branch in state.branches.items()
        for name, value in branch.best.items()
    }


def _trained_model(
    prepared: Prepared, workshop: Workshop, progress: Progress, state: State
) -> TrainedModel:
    federation = prepared.federation
    branches = isinstance(progress.state, FedBdftState)
    shape, name = federation.source.shape, prepared.model.net
    return TrainedModel(
        federation.taxonomy,
        federation.full_taxonomy,
        federation.source.normalisation,
        shape,
        name,
        workshop.head,
        model_net(name, workshop.head, shape, state, branches=branches),
    )


def _result(
    config: Config, prepared: Prepared, workshop: Workshop, progress: Progress
) -> dict[str, Any]:
    """Test the best weights and gather ``result.json``."""
    state, federation = progress.state, prepared.federation
    tested, split = prepared.test, "test"
    if not len(tested) and federation.validation is not None:
        tested, split = federation.validation.indices, "validation"
    untrained: list[str] = []
    if isinstance(state, FedBdftState):
        best = {number: branch.best for number, branch in state.branches.items()}
        validation_hf = workshop.validate_branches(best)
        leaves = workshop.predict_leaves_by_branches(best, tested)
        rounds, cycles = progress.first_stage_rounds, state.cycle
        ids = federation.taxonomy.ids
        untrained = [ids[number] for number, branch in state.branches.items() if not branch.rounds]
    else:
        validation_hf = state.stopping.best
        leaves = workshop.predict_leaves(state.best, tested)
        rounds, cycles = state.round, 0
    scores: dict[str, Any] = dict.fromkeys(field.name for field in fields(Summary))
    if len(tested):
        full = federation.full_taxonomy
        truth = prepared.data.labels[tested]
        prediction = numbers_in(full, federation.taxonomy)[leaves]
        summary = summarise(truth, cut_back(truth, prediction, full), full, federation.taxonomy)
        scores.update(asdict(summary))
    return {
        **scores,
        "tested_on": split if len(tested) else None,
        "validation_hf": validation_hf,
        "rounds": rounds,
        "cycles": cycles,
        "seconds": round(progress.seconds, 3),
        "seed": config.seed,
        "untrained_branches": untrained,
        "config": config.settings(),
    }

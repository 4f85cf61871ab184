"""The server of a federation across machines: taxonomy and config, and a run folder.

It runs the rounds of :mod:`fedgrain.runs.rounds` with the engine of the sites. Every round is in
the run folder before the next begins, so a stopped run resumes at the next start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from fedgrain.arithmetic import one_thread
from fedgrain.deployment.app import App
from fedgrain.deployment.flower_engine import FlowerEngine
from fedgrain.deployment.ledger import ServerLedger
from fedgrain.deployment.server_settings import Operation, StartRecord
from fedgrain.deployment.server_side import RECORD, open_engine, server_side
from fedgrain.errors import DeploymentError, RunError
from fedgrain.federated.algorithm import build_algorithm
from fedgrain.files import append_line, read_text
from fedgrain.messages.limits import FEWEST
from fedgrain.messages.traffic import Traffic
from fedgrain.parsing import parse_json
from fedgrain.records.chain import head_path
from fedgrain.runs.rounds import Callback, ReadyRun, disk_space, train_and_test
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.validation_score import describe
from fedgrain.text import one_line

_LOOK_SECONDS = 1.0
_LONGEST_LINE = 1000  # characters of a line of the log


class Watch(Callback):
    """Checks before every round which sites are connected, and logs what happened after it."""

    def __init__(self, engine: FlowerEngine, place: RunFolder) -> None:
        self.engine, self.traffic = engine, place.path / "traffic.jsonl"
        self.bounded = place.path / "bounded.jsonl"
        self._reported: set[tuple[str, str]] = set()

    def on_round_start(self, stage: str, number: int) -> None:
        """Let new and reconnected sites take part."""
        log_lines(self.engine.refresh())
        self._log_bounded(stage, number)
        self.engine.traffic = Traffic()

    def on_round_end(self, line: dict[str, Any]) -> None:
        """Log every site whose update was lost, and why."""
        found = describe(line.get("validation"), line["validation_hf"])
        trained = ", ".join(dict.fromkeys(str(one["client"]) for one in line["clients"]))
        head = f"{line['stage']} {line['round']}: {trained or 'no site'} trained, {found}"
        faults = [
            f"{line['stage']} {line['round']}: {fault['client']} is left out"
            f"{' of branch ' + fault['branch'] if 'branch' in fault else ''}: {fault['fault']}"
            for fault in line["faults"]
        ]
        log_lines([f"{head}, {line['seconds']:.1f} s", *faults])
        self._log_bounded(line["stage"], line["round"])
        about = {"stage": line["stage"], "round": line["round"], "seconds": line["seconds"]}
        append_line(self.traffic, json.dumps({**about, **asdict(self.engine.traffic)}))
        self.engine.traffic = Traffic()

    def _log_bounded(self, stage: str, number: int) -> None:
        """Log every reduced claim once; the result lists them again."""
        for note in sorted(self.engine.bounded, key=str):
            if (note.site, note.what) not in self._reported:
                self._reported.add((note.site, note.what))
                log_lines([f"{stage} {number}: {note}"])
                line = {"stage": stage, "round": number, **asdict(note)}
                append_line(self.bounded, json.dumps(line))


def log_lines(lines: Sequence[str]) -> None:
    """Print lines at once: Flower collects them into the run's log."""
    for line in lines:
        print(f"fedgrain: {one_line(line, _LONGEST_LINE)}", flush=True)


def serve(grid: Grid, package: Path, settings: Mapping[str, Any]) -> None:
    """Run the remaining rounds and write the result."""
    app = App.read(package)
    operation = Operation.of(settings)
    place = RunFolder(operation.run_folder)
    start = StartRecord(place)
    with place.locked(), one_thread():
        place.check(app.config, early=[RECORD, head_path(place.path / RECORD).name])
        start.check(operation)
        if place.finished(app.config):
            log_lines([f"the run in {place.path} is finished already"])
            return
        own = server_side(app, operation)
        algorithm = build_algorithm(app.config.algorithm, own.settings)
        ledger = ServerLedger(start, operation) if operation.privacy else None
        engine = open_engine(grid, app.config, operation, own, ledger)
        if len(operation.sites) < FEWEST:
            log_lines(
                [f"fewer than {FEWEST} sites: their updates cannot be compared with each other"]
            )
        _wait_for_sites(engine, operation.wait_seconds, app.config.min_clients)
        with disk_space(place):
            place.claim(app.config)
        log_lines([f"the sites know this run as {start.name(operation)}"] if ledger else [])

        def about() -> dict[str, Any]:
            return {
                "sites": list(operation.sites),
                "strategy": operation.strategy,
                "bounded": _bounded_claims(place),
                "left_out": left_out(place),
                **cost(operation, ledger),
            }

        calibrator = engine.calibrated if app.config.validation == "clients" else None
        watch = Watch(engine, place)
        initial = engine.model.initial
        ready = ReadyRun(app.config, algorithm, own.description, initial, own.prepared)
        result = train_and_test(ready, engine, place, [watch], about, calibrator)
        log_lines([describe(result.validation, result.validation_hf)])
        log_lines([f"finished: everything is in {place.path}"])


def _bounded_claims(place: RunFolder) -> list[dict[str, Any]]:
    """Return every reduced count, with the first round it appeared in."""
    path, found = place.path / "bounded.jsonl", dict[str, dict[str, Any]]()
    for text in read_text(path).splitlines() if path.exists() else ():
        note = parse_json(text, path, RunError)
        found.setdefault(f"{note['site']}|{note['what']}", note)
    return list(found.values())


def left_out(place: RunFolder) -> dict[str, dict[str, int]]:
    """Return how many updates of each site were lost, by the kind of fault."""
    found: dict[str, dict[str, int]] = {}
    for line in place.metrics_lines():
        for fault in line["faults"]:
            kinds, kind = found.setdefault(fault["client"], {}), fault.get("kind", "unknown")
            kinds[kind] = kinds.get(kind, 0) + 1
    return found


def cost(operation: Operation, ledger: ServerLedger | None) -> dict[str, Any]:
    """Return the privacy cost of the run's releases; empty without noise."""
    if operation.privacy is None or ledger is None:
        return {}
    return {"privacy": operation.privacy.report(ledger.releases())}


def _wait_for_sites(engine: FlowerEngine, seconds: float, at_least: int) -> None:
    """Wait until all sites are connected; when time is up, continue with those that are."""
    until = time.monotonic() + seconds
    reported: list[str] = []
    while True:
        log_lines(engine.refresh())
        missing = engine.missing()
        if not missing:
            return
        if missing != reported:
            log_lines([f"waiting for {', '.join(missing)}"])
            reported = missing
        if time.monotonic() >= until:
            break
        time.sleep(_LOOK_SECONDS)
    there = len(engine.client_names) - len(missing)
    if there < at_least:
        raise DeploymentError(
            f"{there} sites are connected after {seconds:g} seconds, but min_clients is "
            f"{at_least}; missing: {', '.join(missing)}"
        )
    log_lines([f"continuing without {', '.join(missing)}; they may join later"])

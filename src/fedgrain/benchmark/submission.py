"""A result in one file: what its runs were told, how they went, and what they predicted.

It is a zip with a fixed list of small files. Nothing is unpacked by the names in it: the names that
must be there follow from the protocol, and a file with any other is refused.
"""

from __future__ import annotations

import io
import json
import math
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.benchmark.protocol import Protocol, Track, read_protocol
from fedgrain.config.config_texts import differences
from fedgrain.errors import BenchmarkError, FedgrainError
from fedgrain.files import read_bytes, written_whole
from fedgrain.images.archives import DAMAGE
from fedgrain.parsing import parse_json
from fedgrain.plugins import Trust
from fedgrain.preparation.prepare import Prepared
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.summary import score
from fedgrain.studies.methods import parse_method
from fedgrain.studies.planned_runs import PlannedRun, cell_runs, plan_runs
from fedgrain.studies.study_folder import StudyFolder

KEPT = ("config.toml", "environment.json", "metrics.jsonl", "result.json")
PREDICTIONS = "predictions.txt"
_ABOUT = "submission.json"
_SCORES = ("hf", "hr", "hp", "accuracy")
_LARGEST = 64 * 2**20  # bytes of a file in the zip
_SAME = 1e-9
_DATE = (2026, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Cell:
    """One run of a submission."""

    run: str
    hf: float
    accuracy: float
    core_seconds: float
    bytes_sent: int
    rounds: int
    portable: bool  # its arithmetic


@dataclass(frozen=True)
class Submission:
    """A method's result on a track."""

    track: Track
    method: str
    cells: tuple[Cell, ...]

    @property
    def portable(self) -> bool:
        """Whether every run was in portable arithmetic: others differ from one CPU to the next."""
        return all(cell.portable for cell in self.cells)

    def by_seed(self, alpha: float, value: str = "hf") -> dict[int, float]:
        """Return a value of every seed; of bounds with a run per client, the mean (or sum).

        The same run may serve several alphas: that of a ceiling, where every leaf is known.
        """
        study, found = self.track.study([self.method]).complete(), {}
        (dataset,) = study.datasets
        for seed in self.track.seeds:
            runs = cell_runs(study, dataset, self.method, alpha, seed, {})
            values = [float(getattr(cell, value)) for cell in self.cells if cell.run in runs]
            found[seed] = fmean(values) if value in ("hf", "accuracy") else sum(values)
        return found


def pack(
    folder: str | Path, track: Track, method: str, out: Path, trust_code: Trust = False
) -> Path:
    """Pack the finished runs of a method, with what their models predict for the test images."""
    from fedgrain.models.model_folder import load
    from fedgrain.preparation.prepare import prepare
    from fedgrain.runs.evaluate import predicted_nodes

    rules = read_protocol(track.version)
    content = {_ABOUT: _about(rules, track, method)}
    for run in _runs(track, method):
        place = RunFolder(StudyFolder(folder).runs / run.name)
        if not place.finished(run.config):
            raise BenchmarkError(
                f"{place.path}: not finished; run `fedgrain benchmark run {track.version} --track "
                f"{track.name} --method {method} --out {folder}` first"
            )
        place.check(run.config)
        place.check_metrics()
        for name in KEPT:
            content[f"{run.name}/{name}"] = read_bytes(place.path / name)
        model = load(place.path, trust_code=trust_code)
        prepared = prepare(run.config)
        nodes = predicted_nodes(model, prepared.federation.source, prepared.test, "leaf", None)
        lines = "".join(f"{model.taxonomy.ids[node]}\n" for node in nodes.tolist())
        content[f"{run.name}/{PREDICTIONS}"] = lines.encode()
    with written_whole(out) as aside:
        aside.write_bytes(_zipped(content))
    return out


def read_submission(path: str | Path) -> Submission:
    """Read a packed result and check it against the protocol: all but the predictions."""
    with _opened(Path(path)) as (submission, _):
        return submission


def check_predictions(path: str | Path, prepared: Mapping[int, Prepared]) -> Submission:
    """Score the predictions of a packed result again; refuse scores that are not theirs."""
    with _opened(Path(path)) as (submission, places):
        for run, place in places:
            given, told = prepared[run.config.seed], place.read_result()
            tree, full = given.federation.taxonomy, given.federation.full_taxonomy
            nodes = _predicted(f"{path}: {run.name}", place, given)
            found = score(nodes, given.data.labels[given.test], tree, full)
            for metric in _SCORES:
                if abs(getattr(found, metric) - told[metric]) > _SAME:
                    raise BenchmarkError(
                        f"{path}: {run.name} says {metric} {told[metric]:.6f}, but its predictions "
                        f"have {getattr(found, metric):.6f}; the result was changed"
                    )
        return submission


def _predicted(where: str, place: RunFolder, given: Prepared) -> NDArray[np.int64]:
    """Return the node predicted for each test image; refuse all but one leaf for each."""
    try:
        names = (place.path / PREDICTIONS).read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise BenchmarkError(f"{where}/{PREDICTIONS} is not UTF-8; pack the result again") from None
    tree = given.federation.taxonomy
    for line, name in enumerate(names, start=1):
        if name not in tree:
            raise BenchmarkError(
                f"{where} predicts {name!r} in line {line}, which is no class of "
                f"{given.data.name}; pack the result again"
            )
        if not tree.is_leaf(tree.index(name)):
            raise BenchmarkError(
                f"{where} predicts {name!r} in line {line}, which is an inner node, but by the "
                "rules predictions are leaves; predict with rule leaf and pack the result again"
            )
    if len(names) != len(given.test):
        raise BenchmarkError(
            f"{where} has {len(names)} predictions for {len(given.test)} test images; pack the "
            "result again"
        )
    return np.array([tree.index(name) for name in names], np.int64)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Submission, list[tuple[PlannedRun, RunFolder]]]]:
    """Yield a submission, and its runs as folders in a temporary place."""
    content = _unzipped(path)
    parsed = parse_json(content.pop(_ABOUT, b"{}").decode("utf-8", "replace"), path, BenchmarkError)
    about: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    told: dict[str, Any] = {
        name: about.get(name) for name in ("version", "track", "method", "protocol")
    }
    if not all(isinstance(value, str) for value in told.values()):
        raise BenchmarkError(f"{path}: {_ABOUT} is missing or damaged; pack the result again")
    try:
        rules = read_protocol(told["version"])
        if told["protocol"] != rules.sha256:
            raise BenchmarkError(
                f"packed under another text of benchmark {rules.version} (SHA-256 "
                f"{told['protocol'][:16]}...); its splits or rules are not these"
            )
        track = rules.track(told["track"])
        runs = _runs(track, told["method"])
    except FedgrainError as error:
        raise BenchmarkError(f"{path}: {error}") from None
    wanted = {f"{run.name}/{name}" for run in runs for name in (*KEPT, PREDICTIONS)}
    wrong = sorted(wanted ^ set(content))
    if wrong:
        what = "lacks" if wrong[0] in wanted else "holds a stranger,"
        raise BenchmarkError(f"{path}: {what} {wrong[0]}; pack the result again")
    with tempfile.TemporaryDirectory() as folder:
        places = []
        for run in runs:  # names of ours, not of the file
            place = RunFolder(Path(folder) / run.name)
            place.path.mkdir()
            for name in (*KEPT, PREDICTIONS):
                (place.path / name).write_bytes(content[f"{run.name}/{name}"])
            places.append((run, place))
        cells = tuple(_cell(path, rules, run, place) for run, place in places)
        yield Submission(track, told["method"], cells), places


def _cell(path: Path, rules: Protocol, run: PlannedRun, place: RunFolder) -> Cell:
    """Check that one run was told what the protocol says, on its data; return how it ended."""
    try:
        different = differences(place.read_config(), run.config)
        result = place.read_result()
        place.check_metrics()
    except FedgrainError as error:
        raise BenchmarkError(f"{path}: {str(error).replace(str(place.path), run.name)}") from None
    if different:
        raise BenchmarkError(
            f"{path}: {run.name} was run with other settings than the protocol's: "
            f"{', '.join(different)}"
        )
    if place.data_seen() != rules.data[run.config.dataset]["fingerprint"]:
        raise BenchmarkError(
            f"{path}: {run.name} was run on other images, labels or splits of "
            f"{run.config.dataset} than the protocol's"
        )
    if result["tested_on"] != "test" or not {"core_seconds", "bytes_sent"} <= result.keys():
        raise BenchmarkError(f"{path}: {run.name} does not say what it cost; run it again")
    for name in ("core_seconds", "bytes_sent", *_SCORES):
        if not _is_amount(result[name]):
            raise BenchmarkError(
                f"{path}: {run.name} says that {name} is {result[name]!r}, which is no number of "
                "0 or more; run it again"
            )
    return Cell(
        run.name, result["hf"], result["accuracy"], result["core_seconds"],
        result["bytes_sent"], result["rounds"] + result["cycles"],
        place.computed_in() == "portable",
    )  # fmt: skip


def _is_amount(value: object) -> bool:
    """Return whether a value read from JSON is a finite number of 0 or more."""
    return isinstance(value, int | float) and value is not True and 0 <= value < math.inf


def _runs(track: Track, method: str) -> list[PlannedRun]:
    parse_method(method)
    return plan_runs(track.study([method]).complete(), {})


def _about(rules: Protocol, track: Track, method: str) -> bytes:
    about = {"version": rules.version, "track": track.name, "method": method}
    return json.dumps({**about, "protocol": rules.sha256}, indent=2).encode() + b"\n"


def _zipped(content: Mapping[str, bytes]) -> bytes:
    """Return a zip that depends on the content alone."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(content):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content[name], zipfile.ZIP_DEFLATED)
    return whole.getvalue()


def _unzipped(path: Path) -> dict[str, Any]:
    """Return the files of a zip by name, in memory; none may be large."""
    raw = read_bytes(path)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > _LARGEST or len(entries) > 10_000:
                raise zipfile.BadZipFile("larger than any result")
            found: dict[str, Any] = {}
            for entry in entries:
                if entry.filename in found:
                    raise zipfile.BadZipFile(f"{entry.filename} is in it twice")
                with archive.open(entry) as file:
                    found[entry.filename] = file.read(_LARGEST)
            return found
    except (*DAMAGE, ValueError, OSError) as error:  # bz2 raises OSError
        raise BenchmarkError(f"{path}: not a packed result ({error}); pack it again") from None

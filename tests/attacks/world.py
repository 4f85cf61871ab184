"""What the attacks are made on: a small data set, runs, a study and an app, made once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from attacks.harness import Told, as_command, called, fedgrain

LEAVES = 6
CONFIG = """\
dataset = "folder"
data_root = "{data}"
image_size = 16
net = "cnn-32"
partition = "manifest"
knowledge = "inferred"
supervision = "paper"
min_branch_samples = 2
rounds = 2
cycles = 2
join_ratio = 1.0
"""
STUDY = """\
methods = ["flat-softmax/paper", "fedbdft/paper"]
datasets = ["folder"]
alphas = [0.0]
seeds = [47]
search = true
candidates = [0.05]
branch_candidates = [0.01]
search_seeds = [42]
settings = {{ data_root = "{data}", image_size = 16, net = "cnn-32", clients = 2, rounds = 1, \
cycles = 1, min_branch_samples = 2, join_ratio = 1.0 }}
"""
ALGORITHMS = ("fedavg", "fedbdft")
TIMES = (
    "seconds",
    "core_seconds",
    "exchange_seconds",
    "site_seconds",
    "sha256",
)  # sha256: of times


@dataclass(frozen=True)
class World:
    """Where everything lies."""

    root: Path

    def __getattr__(self, name: str) -> Path:
        """``world.data`` is the folder data."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self.root / name

    def run_arguments(self, algorithm: str, out: Path, config: Path | None = None) -> list[object]:
        """The command that makes, or goes on with, a run."""
        return ["run", config or self.root / f"{algorithm}.toml", "--out", out, "--workers", "1",
                "--device", "cpu", "--json"]  # fmt: skip


def build(root: Path) -> World:
    """Make the world, undisturbed, in this process: forked ones find every module imported."""
    world = World(root)
    os.environ["FEDGRAIN_CACHE"] = str(world.cache)
    write_data(world.data)
    for algorithm in ALGORITHMS:
        text = CONFIG.format(data=world.data) + f'algorithm = "{algorithm}"\n'
        (root / f"{algorithm}.toml").write_text(text)
        _must(fedgrain(*world.run_arguments(algorithm, root / f"{algorithm}-run")))
    (root / "study.toml").write_text(STUDY.format(data=world.data))
    _must(called(lambda: run_study(root / "study.toml", root / "study")))
    _must(fedgrain("flower", "init", root / "federation", "--taxonomy",
                   world.data / "taxonomy.csv", "--site", "a", "--site", "b", "--host",
                   "localhost", "--config", root / "app.toml"))  # fmt: skip
    return world


def write_data(folder: Path) -> None:
    """Write 60 noisy pictures of six classes, the brighter the higher their number."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    rows = ["path,label,client,split"]
    for number in range(60):
        leaf = number % LEAVES
        pixels = rng.integers(0, 60, (20, 20, 3)) + leaf * 30
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
        split = "test" if number >= 48 else "train"
        rows.append(f"{number}.png,leaf{leaf},site{number // LEAVES % 3},{split}")
    (folder / "images.csv").write_text("\n".join(rows) + "\n")
    edges = [f"root,inner{n}" for n in range(2)] + [f"inner{n // 3},leaf{n}" for n in range(LEAVES)]
    (folder / "taxonomy.csv").write_text("\n".join(["parent,child", *edges]) + "\n")
    (folder.parent / "app.toml").write_text("image_size = 16\nrounds = 1\n")


class Inline(Executor):
    """Works a job off at once, in this process: its file events are those of the study."""

    at_a_time = 1

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Quiet:
    """A progress bar that shows nothing."""

    def start(self, what: str, total: int, done: int) -> None:
        pass

    def finished(self, name: str, problem: str | None) -> None:
        pass


def run_study(file: Path, folder: Path) -> int:
    """Run a study as the command does, but in one process; print a refusal as the command does."""
    from fedgrain.errors import FedgrainError
    from fedgrain.studies.execute import run_study as execute
    from fedgrain.studies.study_file import read_study

    def work() -> None:
        outcome = execute(read_study(file), folder, Inline(), Quiet())
        if outcome.failures:
            raise FedgrainError("; ".join(outcome.failures.values()))

    return as_command(work)


def _must(told: Told) -> None:
    if told.code != 0:
        raise SystemExit(f"the undisturbed world cannot be made: {told.err}")


def copied(source: Path, target: Path) -> Path:
    """Copy a file or a folder, with its links and times."""
    if source.is_dir():
        return Path(shutil.copytree(source, target, symlinks=True))
    target.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy2(source, target))


# what decides whether two outcomes are the same


def without_times(value: Any) -> Any:
    """Return a JSON value without what a clock decides."""
    if isinstance(value, dict):
        return {key: without_times(v) for key, v in value.items() if key not in TIMES}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return value


def outcome(run: Path) -> dict[str, Any]:
    """Return all that a run came to: bytes of the weights, numbers of the rest, names of files."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return {
        "weights": digest(run / "best.safetensors"),
        "model": digest(run / "model.json"),
        "config": digest(run / "config.toml"),
        "result": without_times(json.loads((run / "result.json").read_text())),
        "metrics": [without_times(json.loads(line)) for line in lines],
        "files": sorted(path.name for path in run.iterdir()),
    }


def study_outcome(folder: Path) -> dict[str, Any]:
    """Return all that a study came to."""
    runs = sorted(path.parent for path in folder.glob("*/*/result.json"))
    return {
        **{str(run.relative_to(folder)): outcome(run) for run in runs},
        "search": json.loads((folder / "search.json").read_text()),
        "files": sorted(path.name for path in folder.iterdir()),
    }


def digest(path: Path) -> str:
    """Return the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def differing(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    """Name the parts in which two outcomes differ."""
    return [name for name in {**one, **two} if one.get(name) != two.get(name)]


def files_of(folder: Path) -> Sequence[Path]:
    """Return every file below a folder that is not empty, in order."""
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size)

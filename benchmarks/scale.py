"""Time and memory of a round as the clients become many: 10, 100, 1,000 and 10,000.

The same 50,000 images (random, of CIFAR-100's shape) are dealt out to ever more clients. 10 are
sampled for a FedAvg round, so a round trains on ever less: what is left at the end is what the
engine itself costs. Nothing is validated. Each size runs in a process of its own.

Memory is looked at all through rounds of their own, since looking takes time: of the parent what is
resident, of a worker what is its own alone (USS), and of all together with what they share counted
once (PSS). Linux only.

    python benchmarks/scale.py [--quick] [--json] [--picture docs/figures/scale]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import fedgrain  # noqa: F401  # isort: skip - before torch: it settles the arithmetic
import torch

from fedgrain.engines import ClientTrainer, ModelSpec
from fedgrain.federated import TrainingSettings
from fedgrain.federated.fedavg import FedAvg
from peers.work import (
    LOCAL,
    SEED,
    EvaluationOff,
    end_on_sigterm,
    federation_of,
    open_engine,
    random_images,
)

SIZES, QUICK_SIZES = (10, 100, 1_000, 10_000), (10, 1_000)
SAMPLED = 10
IMAGES, QUICK_IMAGES = 50_000, 3_000
VALIDATION = 0.01  # of the images; they are held out and never looked at
EVERY = 0.05  # seconds between two looks at the memory
SIZE_LIMIT = 900.0  # seconds for one size
BAR = 30


class MemoryWatch(threading.Thread):
    """Looks at this process and all below it, and keeps the largest it saw."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = {"parent_rss": 0, "worker_uss": 0, "total_pss": 0}
        self.looks = 0
        self._over = threading.Event()

    def run(self) -> None:
        """Look until told to stop."""
        while not self._over.wait(EVERY):
            self.look()

    def look(self) -> None:
        """Take every process into account once."""
        ours = os.getpid()
        seen = {process: memory_of(process) for process in [ours, *descendants(ours)]}
        now = {
            "parent_rss": seen[ours].get("Rss", 0),
            "worker_uss": max((own(seen[p]) for p in seen if p != ours), default=0),
            "total_pss": sum(memory.get("Pss", 0) for memory in seen.values()),
        }
        self.peak = {name: max(value, now[name]) for name, value in self.peak.items()}
        self.looks += 1

    def __enter__(self) -> MemoryWatch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self.look()


def own(memory: dict[str, int]) -> int:
    """Return what a process shares with nobody."""
    return memory.get("Private_Clean", 0) + memory.get("Private_Dirty", 0)


def memory_of(process: int) -> dict[str, int]:
    """Read a process's memory in kB; empty when it has just ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def descendants(process: int) -> list[int]:
    """Return the processes below one, by its threads' lists of children."""
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = [int(child) for child in path.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def measure(clients: int, images: int, rounds: int, workers: int) -> dict[str, Any]:
    """Run rounds with so many clients; the first is a warm-up."""
    federation = federation_of(random_images(images), clients, validation=VALIDATION)
    settings = TrainingSettings(seed=SEED, local=LOCAL, join_ratio=SAMPLED / clients)
    spec = ModelSpec("cnn-32", "flat-softmax")
    state = FedAvg(settings).init(ClientTrainer(federation, spec, settings).model.initial)
    seconds: list[float] = []
    began = time.perf_counter()
    with open_engine(federation, spec, settings, workers) as opened:
        engine = EvaluationOff(opened)
        state, _ = FedAvg(settings).apply(state, engine)
        start = time.perf_counter() - began
        for _ in range(rounds):
            began = time.perf_counter()
            state, report = FedAvg(settings).apply(state, engine)
            seconds.append(time.perf_counter() - began)
        if len(report.clients) != SAMPLED:
            raise RuntimeError(f"{len(report.clients)} clients took part, not {SAMPLED}")
        with MemoryWatch() as watch:
            for _ in range(max(1, rounds // 3)):
                state, report = FedAvg(settings).apply(state, engine)
    return {
        "clients": clients,
        "seconds": statistics.median(seconds),
        "least": min(seconds),
        "most": max(seconds),
        "rounds": rounds,
        "samples": sum(client["samples"] for client in report.clients),
        "start": start,
        "memory_kb": watch.peak,
        "looks": watch.looks,
    }


def in_own_process(clients: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one size where no other has left memory behind."""
    command = [sys.executable, __file__, "--size", str(clients)]
    command += ["--workers", str(arguments.workers), *(["--quick"] if arguments.quick else [])]
    print(f"{time.strftime('%H:%M:%S')} {clients} clients", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=SIZE_LIMIT)
    if done.returncode:
        raise SystemExit(f"{clients} clients: the measurement ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def bar(value: float, low: float, high: float) -> str:
    """Draw a value on a logarithmic scale between two others."""
    share = math.log(value / low) / math.log(high / low) if high > low else 1.0
    return "#" * max(1, round(BAR * share))


def print_curve(rows: list[dict[str, Any]]) -> None:
    """Print the table, and both curves as bars."""
    print(
        f"{'clients':>7} {'samples':>7} {'s/round':>8} {'least':>7} {'most':>7} {'ms/sample':>9} "
        f"{'start s':>7} {'parent MB':>9} {'worker MB':>9} {'all MB':>7}"
    )
    for row in rows:
        memory = {name: value / 1024 for name, value in row["memory_kb"].items()}
        print(
            f"{row['clients']:7d} {row['samples']:7d} {row['seconds']:8.3f} {row['least']:7.3f} "
            f"{row['most']:7.3f} {row['seconds'] / row['samples'] * 1e3:9.2f} {row['start']:7.1f} "
            f"{memory['parent_rss']:9.0f} {memory['worker_uss']:9.0f} {memory['total_pss']:7.0f}"
        )
    times = [row["seconds"] for row in rows]
    print("\nseconds a round (logarithmic)")
    for row in rows:
        print(f"{row['clients']:7d} {bar(row['seconds'], min(times) / 2, max(times))}")
    most = max(row["memory_kb"]["total_pss"] for row in rows)
    print("\npeak memory of all processes (linear)")
    for row in rows:
        share = row["memory_kb"]["total_pss"] / most
        print(f"{row['clients']:7d} {'#' * round(BAR * share)} {share * most / 1024:.0f} MB")


def draw_curve(rows: list[dict[str, Any]], path_stem: Path) -> None:
    """Draw seconds a round and peak memory over the number of clients."""
    from fedgrain.pictures.picture_files import new_figure, write_picture
    from fedgrain.pictures.study_figures import style_of

    clients = [row["clients"] for row in rows]
    figure = new_figure(8.4, 3.2)
    left, right = figure.subplots(1, 2)
    spread = [[row["seconds"] - row["least"], row["most"] - row["seconds"]] for row in rows]
    left.errorbar(
        clients,
        [row["seconds"] for row in rows],
        yerr=list(zip(*spread, strict=True)),
        capsize=3,
        **style_of(0),
    )
    left.set(xscale="log", yscale="log", ylabel="seconds a round")
    names = {"total_pss": "all", "parent_rss": "server", "worker_uss": "a worker's own"}
    for number, (key, name) in enumerate(names.items()):
        megabytes = [row["memory_kb"][key] / 1024 for row in rows]
        right.plot(clients, megabytes, label=name, **style_of(number))
    right.set(xscale="log", ylabel="peak memory, MB")
    right.set_ylim(0, 1.2 * right.get_ylim()[1])  # room for the legend
    right.legend(frameon=False, loc="upper left", ncols=len(names), fontsize="small")
    for axes in (left, right):
        axes.set_xlabel(f"clients, {SAMPLED} of them in a round")
        axes.grid(visible=True, alpha=0.3)
    figure.tight_layout()
    write_picture(figure, path_stem)


def main() -> None:
    """Measure every size and print the curve."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes, images and rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--picture", type=Path, help="draw it to this name with .svg and .png")
    parser.add_argument("--workers", type=int, default=2, help="the engine's workers")
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    end_on_sigterm()
    if arguments.size is not None:
        torch.set_num_threads(1)
        images = QUICK_IMAGES if arguments.quick else IMAGES
        few = arguments.size < 100  # these rounds are long
        rounds = 1 if arguments.quick else (3 if few else 9)
        print(json.dumps(measure(arguments.size, images, rounds, arguments.workers)))
        return
    load = os.getloadavg()[0]
    sizes = QUICK_SIZES if arguments.quick else SIZES
    rows = [in_own_process(clients, arguments) for clients in sizes]
    if arguments.picture:
        draw_curve(rows, arguments.picture)
    if arguments.json:
        print(json.dumps({"workers": arguments.workers, "load": load, "rows": rows}))
        return
    print(f"{SAMPLED} clients a round, {arguments.workers} workers, load before {load:.1f}")
    print_curve(rows)


if __name__ == "__main__":
    main()

"""One federated round: this engine against the raw bound, Flower and pfl, in turns in one run.

The CIFAR-100 round: 5 of 10 clients with 4,000 images each, batch 32, cnn-32, flat-softmax, nothing
validated. After one warm-up everyone has a turn, again and again; seconds are medians over the
turns and ratios medians over the turns' ratios.

- fedgrain: ``FedAvg.apply`` on the engine: sampling, training, checks, averaging;
- raw bound: the same clients and steps on as many one-thread processes (peers/raw_bound.py);
- flower: Flower's simulation, an ordinary DataLoader client, one CPU each (peers/flower_round.py);
- pfl: pfl-research's SimulatedBackend as one process with a thread per core, and (pfl-sharded) as
  one-thread processes among which it shards the cohort (peers/pfl_round.py).

Then a FedBDFT cycle, all (branch, client) pairs, against its own raw bound; then the same FedAvg
round in native and in portable arithmetic, in turns, in CPU seconds of one process.

The peers live in environments this script makes in the user's cache directory; one that cannot take
part is named and left out. ``--quick`` starts none unless ``--peers`` names them: it installs
nothing. CIFAR-100 is looked for in FEDGRAIN_DATA, the cache and ../shared/data.

    python benchmarks/round.py [--quick] [--json] [--only-arithmetic]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedgrain  # noqa: F401  # isort: skip - before torch: it settles the arithmetic
import numpy as np
import torch

from fedgrain.engines import ClientTrainer, ModelSpec
from fedgrain.federated import Federation, TrainingSettings
from fedgrain.federated.algorithm import FederatedAlgorithm
from fedgrain.federated.fedavg import FedAvg
from fedgrain.federated.fedbdft import FedBDFT
from peers.conversation import Peer
from peers.environments import PeerError, python_of
from peers.raw_bound import Key, Piece, RawBound, pieces_of
from peers.work import (
    LOCAL,
    SEED,
    EvaluationOff,
    cifar_images,
    end_on_sigterm,
    federation_of,
    open_engine,
    random_images,
)

CLIENTS, EACH, QUICK_EACH = 10, 4000, 64
SCRIPTS = Path(__file__).resolve().parent / "peers"
PEERS = {  # environment, script, processes (None: as many as workers), threads
    "flower": ("flower", "flower_round.py", None, 1),
    "pfl-sharded": ("pfl", "pfl_round.py", None, 1),
    "pfl": ("pfl", "pfl_round.py", 1, None),
}
AIMS = {"raw": 0.9, "cycle": 0.85, "peer": 1.3}
MODES = ("native", "portable")  # of fedgrain.arithmetic
CHEAP = 1.1  # what portable arithmetic may cost, to be the default
SAME = 1e-4  # largest difference between weights that went through the same steps


@dataclass
class Contender:
    """Someone who runs one round when asked, and says how long it took."""

    name: str
    round: Callable[[], float]


def progress(text: str) -> None:
    """Tell whoever waits."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def contest(contenders: list[Contender], turns: int) -> dict[str, list[float]]:
    """Let everyone have a turn, again and again, after one that is not counted."""
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for turn in range(turns + 1):
        for contender in list(contenders):
            try:
                took = contender.round()
            except PeerError as error:
                progress(f"{contender.name} is left out: {error}")
                contenders.remove(contender)
                del seconds[contender.name]
                continue
            progress(f"{contender.name} {f'turn {turn}' if turn else 'warm-up'}: {took:.2f} s")
            if turn:
                seconds[contender.name].append(took)
    return seconds


class EngineAndBound:
    """Rounds of an algorithm on the engine, and the very same tasks on the raw bound."""

    def __init__(
        self, algorithm: FederatedAlgorithm[Any], state: Any, engine: EvaluationOff
    ) -> None:
        self.algorithm, self.state, self.engine = algorithm, state, engine
        self.bound: RawBound | None = None
        self.difference: float | None = None

    def engine_round(self) -> float:
        """Time one round as the algorithm runs it."""
        self.engine.keep_updates = self.difference is None  # in the warm-up
        began = time.perf_counter()
        self.state, _ = self.algorithm.apply(self.state, self.engine)
        return time.perf_counter() - began

    def bound_round(self) -> float:
        """Time the tasks of the engine's last round; compare the weights the first time."""
        assert self.bound is not None
        took, results = self.bound.round(self.engine.tasks)
        if self.difference is None:
            self.difference = max(
                float(np.abs(ours.numpy() - theirs).max())
                for update, weights in zip(self.engine.updates, results, strict=True)
                for ours, theirs in zip(update.state.values(), weights, strict=True)
            )
            if not self.difference < SAME:
                raise RuntimeError(f"engine and raw bound differ by {self.difference}")
        return took


def row_of_image(federation: Federation) -> np.ndarray:
    """Return where each image lies when only the clients' are kept, client after client."""
    used = np.concatenate([client.train.indices for client in federation.clients])
    rows = np.full(len(federation.source.images), -1, dtype=np.int64)
    rows[used] = np.arange(len(used))
    return rows


def lay_out(federation: Federation, trainer: ClientTrainer, folder: Path) -> None:
    """Write the clients' images as floats, with their classes, for all who are not the engine."""
    parts = [client.train.indices for client in federation.clients]
    used, rows = np.concatenate(parts), row_of_image(federation)
    shape = (len(used), *federation.source.shape)
    images = np.lib.format.open_memmap(folder / "images.npy", "w+", np.float32, shape)
    for start in range(0, len(used), 2000):
        batch = federation.source.batch(used[start : start + 2000])
        images[start : start + 2000] = batch.permute(0, 2, 3, 1).numpy()
    images.flush()
    classes = [targets for _, targets in pieces_of(trainer, [None]).values()]
    np.save(folder / "targets.npy", np.concatenate(classes))
    np.save(folder / "parts.npy", np.stack([rows[part] for part in parts]))


def moved(pieces: dict[Key, Piece], rows: np.ndarray) -> dict[Key, Piece]:
    """Point pieces at the rows of the written file."""
    return {key: (rows[indices], targets) for key, (indices, targets) in pieces.items()}


def start_peer(name: str, folder: Path, arguments: argparse.Namespace) -> Peer:
    """Start a peer in its environment."""
    environment, script, processes, threads = PEERS[name]
    cores = str(arguments.workers)
    settings = {
        "FEDGRAIN_BENCH_FOLDER": str(folder),
        "FEDGRAIN_BENCH_WORKERS": str(processes or cores),
        "FEDGRAIN_BENCH_THREADS": str(threads or cores),
        "FEDGRAIN_BENCH_POOL_FIRST": "1" if arguments.peers_pool_first else "0",
        "OMP_NUM_THREADS": str(threads or cores),
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # its default is 15: behind everything else on the machine
    }
    return Peer(python_of(environment), SCRIPTS / script, settings, folder / f"{name}.log")


def fedavg_contest(
    federation: Federation, folder: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Run the round on everyone."""
    spec, settings = ModelSpec("cnn-32", "flat-softmax"), TrainingSettings(seed=SEED, local=LOCAL)
    trainer = ClientTrainer(federation, spec, settings)
    lay_out(federation, trainer, folder)
    pieces = moved(pieces_of(trainer, [None]), row_of_image(federation))
    with ExitStack() as held:
        engine = held.enter_context(open_engine(federation, spec, settings, arguments.workers))
        ours = EngineAndBound(
            FedAvg(settings), FedAvg(settings).init(trainer.model.initial), EvaluationOff(engine)
        )
        ours.bound = held.enter_context(raw_bound(folder, pieces, settings.local, arguments))
        contenders = [
            Contender("fedgrain", ours.engine_round),
            Contender("raw bound", ours.bound_round),
        ]
        for name in arguments.peers:
            progress(f"starting {name}")
            try:
                peer = held.enter_context(start_peer(name, folder, arguments))
            except (PeerError, OSError) as error:
                progress(f"{name} is left out: {error}")
                continue
            contenders.append(Contender(name, peer.round))
        seconds = contest(contenders, arguments.turns)
    return {"seconds": seconds, "difference": ours.difference}


def cycle_contest(
    federation: Federation, folder: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Run a FedBDFT cycle on the engine and on its raw bound."""
    spec, settings = ModelSpec("cnn-32", "cond-softmax"), TrainingSettings(seed=SEED, local=LOCAL)
    trainer = ClientTrainer(federation, spec, settings)
    branches = federation.taxonomy.internal.tolist()
    pieces = moved(pieces_of(trainer, branches), row_of_image(federation))
    with ExitStack() as held:
        engine = EvaluationOff(
            held.enter_context(open_engine(federation, spec, settings, arguments.workers))
        )
        start = FedBDFT(settings).decoupled(trainer.model.decouple(trainer.model.initial), engine)
        ours = EngineAndBound(FedBDFT(settings), start, engine)
        ours.bound = held.enter_context(raw_bound(folder, pieces, settings.branch, arguments))
        contenders = [
            Contender("fedgrain", ours.engine_round),
            Contender("raw bound", ours.bound_round),
        ]
        seconds = contest(contenders, arguments.turns)
    pairs = len(engine.tasks)
    return {"seconds": seconds, "difference": ours.difference, "pairs": pairs}


def arithmetic_contest(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the round in each arithmetic, in a process of its own; CPU seconds."""
    with ExitStack() as held:
        contenders = []
        for mode in MODES:
            settings = {
                "FEDGRAIN_ARITHMETIC": mode,
                "FEDGRAIN_BENCH_FOLDER": str(folder),
                "FEDGRAIN_BENCH_IMAGES": str(arguments.images),
                "OMP_NUM_THREADS": "1",
            }
            python, log = Path(sys.executable), folder / f"{mode}.log"
            peer = Peer(python, SCRIPTS / "arithmetic_round.py", settings, log)
            contenders.append(Contender(mode, held.enter_context(peer).round))
        seconds = contest(contenders, arguments.turns)
    native, portable = (seconds[mode] for mode in MODES)
    cost = {"ratio": ratio(portable, native), "ratio_of_least": min(portable) / min(native)}
    return {"cpu_seconds": seconds, **cost}


def raw_bound(
    folder: Path, pieces: dict[Key, Piece], settings: Any, arguments: argparse.Namespace
) -> RawBound:
    """Return the raw bound on the written images."""
    workers = arguments.workers
    return RawBound(folder / "images.npy", pieces, settings, seed=SEED, workers=workers)


def ratio(over: list[float], under: list[float]) -> float:
    """Return the median of the turns' ratios."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def rows_of(found: dict[str, Any], bound_aim: float) -> Iterator[dict[str, Any]]:
    """Give one row per contender: median, spread, ratio and what it should be."""
    ours = found["seconds"]["fedgrain"]
    for name, seconds in found["seconds"].items():
        row = {
            "contender": name,
            "median": statistics.median(seconds),
            "least": min(seconds),
            "most": max(seconds),
            "over_fedgrain": ratio(seconds, ours),
            "aim": bound_aim if name == "raw bound" else AIMS["peer"],
        }
        yield {**row, "aim": None} if name == "fedgrain" else row


def print_table(title: str, found: dict[str, Any], bound_aim: float, *, judged: bool) -> None:
    """Print one contest; a smaller one is not held to the aims."""
    print(f"\n{title}")
    aims = "   aim" if judged else ""
    print(f"{'contender':12} {'s (median)':>10} {'least':>7} {'most':>7} {'/ fedgrain':>10}{aims}")
    for row in rows_of(found, bound_aim):
        aim = ""
        if row["aim"] is not None and judged:
            reached = row["over_fedgrain"] >= row["aim"]
            aim = f"   >= {row['aim']:.2f} {'reached' if reached else 'missed'}"
        print(
            f"{row['contender']:12} {row['median']:10.2f} {row['least']:7.2f} {row['most']:7.2f} "
            f"{row['over_fedgrain']:10.2f}{aim}"
        )
    if found["difference"] == 0.0:
        print("engine and raw bound: the same weights to the bit (compared in the warm-up)")
    else:
        print(f"engine and raw bound: the same weights to {found['difference']:.0e}")


def print_cost(found: dict[str, Any]) -> None:
    """Print what portable arithmetic costs."""
    print("\nA FedAvg round in one process, CPU seconds")
    for mode, seconds in found["cpu_seconds"].items():
        print(
            f"{mode:12} {statistics.median(seconds):10.2f} {min(seconds):7.2f} {max(seconds):7.2f}"
        )
    print(
        f"portable / native: {found['ratio']:.2f} (median of the turns), "
        f"{found['ratio_of_least']:.2f} (least of each); the default below {CHEAP:.2f}"
    )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="few images, one turn, to see that it runs"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--workers", type=int, default=2, help="processes of each contender")
    parser.add_argument("--images", type=int, help=f"of each client ({EACH})")
    parser.add_argument("--turns", type=int, help="counted turns of each, at least 3 (5)")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), help="which peers (all)")
    parser.add_argument("--no-cycle", action="store_true", help="without the FedBDFT cycle")
    parser.add_argument(
        "--only-arithmetic", action="store_true", help="only what portable arithmetic costs"
    )
    parser.add_argument(
        "--peers-pool-first",
        action="store_true",
        help="let the peers' net pool before the ReLU, as ours does",
    )
    arguments = parser.parse_args()
    if arguments.images is None:
        arguments.images = QUICK_EACH if arguments.quick else EACH
    if arguments.turns is None:
        arguments.turns = 1 if arguments.quick else 5
    if arguments.peers is None:
        arguments.peers = [] if arguments.quick else list(PEERS)
    least = 1 if arguments.quick else 3
    if arguments.turns < least or arguments.workers < 1 or not 32 <= arguments.images <= EACH:
        parser.error(f"there are at least {least} turns and 1 worker, and 32 to {EACH} images")
    return arguments


def main() -> None:
    """Measure and print."""
    arguments = parse()
    end_on_sigterm()
    torch.set_num_threads(1)
    if arguments.only_arithmetic:
        with tempfile.TemporaryDirectory(prefix="fg") as name:
            found = arithmetic_contest(Path(name), arguments)
        print(json.dumps(found)) if arguments.json else print_cost(found)
        return
    each = arguments.images
    data = random_images(2 * CLIENTS * each) if arguments.quick else cifar_images()
    federation = federation_of(data, CLIENTS, validation=0.2, each=each)
    found: dict[str, Any] = {"data": data.name, "images": each, "workers": arguments.workers}
    found["load"] = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="fg") as name:
        found["round"] = fedavg_contest(federation, Path(name), arguments)
        if not arguments.no_cycle:
            found["cycle"] = cycle_contest(federation, Path(name), arguments)
        found["arithmetic"] = arithmetic_contest(Path(name), arguments)
    if arguments.json:
        print(json.dumps(found))
        return
    print(
        f"{data.name}, 5 of {CLIENTS} clients with {each} images, batch {LOCAL.batch}, cnn-32; "
        f"{arguments.workers} workers, {arguments.turns} turns, load before {found['load']:.1f}"
    )
    judged = each == EACH
    print_table("A FedAvg round", found["round"], AIMS["raw"], judged=judged)
    if "cycle" in found:
        title = f"A FedBDFT cycle, {found['cycle']['pairs']} (branch, client) pairs"
        print_table(title, found["cycle"], AIMS["cycle"], judged=judged)
    print_cost(found["arithmetic"])


if __name__ == "__main__":
    main()

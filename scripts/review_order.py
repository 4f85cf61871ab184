"""Which label next? Review in the order of expected gain against random order, on CIFAR-100.

At alpha 0.9 an expert who knows the truth makes 1, 2, 5 and 10 % of the coarse labels full; then
everything is trained again, on the features of a frozen trunk (docs/results/cifar100-trunk.toml).
The order comes from the model that was trained before any review. Prints HF over the share
reviewed, and writes every run to a JSON file; what is there already is not trained again.

    python scripts/review_order.py --out /work/studies/review-order.json [--seeds 47 48 49]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import fedgrain as _fedgrain  # noqa: F401  # isort: skip - it settles the arithmetic before numpy
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from fedgrain import Config
from fedgrain.arithmetic import one_thread
from fedgrain.config.by_data import completed
from fedgrain.federated.algorithm import build_algorithm
from fedgrain.files import write_text
from fedgrain.knowledge import project_known
from fedgrain.models.trained_model import TrainedModel
from fedgrain.preparation.prepare import Prepared, prepare
from fedgrain.preparation.trunk import with_weights_hash
from fedgrain.randomness import numpy_generator
from fedgrain.refinement.gain import gains
from fedgrain.refinement.proposals import propose
from fedgrain.runs.engine_choice import engine_of, trainer_of
from fedgrain.runs.rounds import ReadyRun, train_and_test
from fedgrain.studies.study_file import read_study

ROOT = Path(__file__).resolve().parents[1]
SHARES = (0.01, 0.02, 0.05, 0.1)
ORDERS = ("expected gain", "random")
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Coarse:
    """The coarse labels of all clients: client, place among its labels, and truth of each."""

    clients: Ints
    places: Ints
    truths: Ints


def config_of(seed: int, rounds: int | None) -> Config:
    """Return the run of the trunk track that uses what is known about labellers."""
    settings = read_study(ROOT / "docs" / "results" / "cifar100-trunk.toml").settings
    chosen = {**settings, **({} if rounds is None else {"rounds": rounds})}
    return Config(
        dataset="cifar100", head="flat-softmax", supervision="projection", responsibilities="round",
        alpha=0.9, seed=seed, **chosen,
    )  # fmt: skip


def coarse_labels(prepared: Prepared) -> Coarse:
    """Find the coarse labels, and what an expert would say."""
    tree, data = prepared.federation.taxonomy, prepared.data
    truth = data.taxonomy.nearest_in(tree)[data.labels].astype(np.int64)
    parts = []
    for number, client in enumerate(prepared.federation.clients):
        places = np.flatnonzero(tree.child_counts[client.train.labels] > 0)
        truths = truth[client.train.indices[places]]
        parts.append((np.full(len(places), number), places, truths))
    return Coarse(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def reviewed(prepared: Prepared, coarse: Coarse, chosen: Ints) -> Prepared:
    """Return the same federation with the chosen labels made full."""
    clients = []
    for number, client in enumerate(prepared.federation.clients):
        own = chosen[coarse.clients[chosen] == number]
        labels = client.train.labels.copy()
        labels[coarse.places[own]] = coarse.truths[own]
        clients.append(replace(client, train=replace(client.train, labels=labels)))
    return replace(prepared, federation=replace(prepared.federation, clients=tuple(clients)))


def expected_gains(model: TrainedModel, prepared: Prepared, coarse: Coarse) -> NDArray[np.float64]:
    """Return the gain of every coarse label, as fedgrain refine computes it."""
    federation = prepared.federation
    tree = federation.taxonomy
    first, end = tree.leaf_ranges
    nodes, bits = np.zeros(len(coarse.places), np.int64), np.zeros(len(coarse.places))
    for number, client in enumerate(federation.clients):
        own = np.flatnonzero(coarse.clients == number)
        part = client.train[coarse.places[own]]
        blocks = model.log_prob_blocks(federation.source, part.indices)
        table = np.concatenate([block.cpu().numpy()[:, tree.leaves] for block in blocks])
        written = project_known(tree, client.known).labels[0]
        for label in np.unique(part.labels).tolist():
            rows = np.flatnonzero(part.labels == label)
            below = slice(int(first[label]), int(end[label]))
            weights = (written[below] == label).astype(np.float64)
            found = propose(tree, label, weights, table[rows, below])
            nodes[own[rows]], bits[own[rows]] = found.nodes, found.entropies
    return gains(nodes, bits)


def trained(config: Config, prepared: Prepared) -> tuple[float, TrainedModel]:
    """Train on one process and return HF over the test images, and the model."""
    algorithm = build_algorithm(config.algorithm, prepared.settings)
    ready, trainer = trainer_of(prepared, 1, "cpu")
    with engine_of(trainer, 1, config.client_time_limit) as engine:
        run = ReadyRun(config, algorithm, ready.description, trainer.model.initial, ready)
        result = train_and_test(run, engine, None, ())
    return float(result.hf), result.model


def study(out: Path, seeds: list[int], rounds: int | None) -> dict[str, Any]:
    """Train what is missing and return every HF: found[seed][order][share]."""
    found: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.exists() else {}
    for seed in seeds:
        own = found.setdefault(str(seed), {order: {} for order in ORDERS})
        if not complete(own):
            for _ in trained_seed(own, seed, rounds):
                write_text(out, json.dumps(found, indent=2) + "\n")
    return found


def complete(own: dict[str, Any]) -> bool:
    """Return whether every order of a seed has every share."""
    return all(len(own[order]) == len(SHARES) for order in ORDERS)


def trained_seed(own: dict[str, Any], seed: int, rounds: int | None) -> Iterator[None]:
    """Train what is missing of one seed; yield after each run."""
    config = with_weights_hash(completed(config_of(seed, rounds)))
    runs = 1 + len(ORDERS) * len(SHARES)
    with one_thread(), tqdm(total=runs, desc=f"seed {seed}", unit=" runs") as bar:
        prepared = prepare(config)
        coarse = coarse_labels(prepared)
        count = own["coarse"] = len(coarse.places)
        own["none"], model = trained(config, prepared)
        bar.update()
        orders = {
            "expected gain": np.argsort(-expected_gains(model, prepared, coarse), kind="stable"),
            "random": numpy_generator(seed, "order of review").permutation(count),
        }
        for order, share in product(ORDERS, SHARES):
            if str(share) not in own[order]:
                again = reviewed(prepared, coarse, orders[order][: round(share * count)])
                own[order][str(share)] = trained(config, again)[0]
                yield
            bar.update()


def table(found: dict[str, Any]) -> str:
    """Return HF over the share reviewed, the mean over the seeds with all values."""
    done = [own for own in found.values() if complete(own)]
    before = [own["none"] for own in done]
    lines = [f"{len(done)} seeds; nothing reviewed: HF {_with_all(before)}", "",
             f"{'reviewed':<10}" + "".join(f"{order:<32}" for order in ORDERS)]  # fmt: skip
    for share in SHARES:
        values = [[own[order][str(share)] for own in done] for order in ORDERS]
        lines.append(f"{share:<10.0%}" + "".join(f"{_with_all(each):<32}" for each in values))
    return "\n".join(lines)


def _with_all(values: list[float]) -> str:
    return f"{mean(values):.4f} ({', '.join(f'{value:.4f}' for value in values)})"


def main() -> None:
    """Read the command line, train and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON, continued if it is there")
    parser.add_argument("--seeds", type=int, nargs="+", default=[47, 48, 49])
    parser.add_argument("--rounds", type=int, help="fewer rounds than the study, to try it out")
    args = parser.parse_args()
    print(table(study(args.out, args.seeds, args.rounds)))


if __name__ == "__main__":
    main()

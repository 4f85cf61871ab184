"""How many branches the best-first search runs per sample, and what that saves.

A cond-softmax on cnn-32 is trained for a moment on synthetic images (a pattern per class of the
CIFAR-100 tree, plus noise), taken apart, and asked for the best leaf of new images: once by running
every branch, once by the search. Both are timed in turns in the same run.

    python benchmarks/branches.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import fedgrain  # noqa: F401  # isort: skip - before torch: it settles the arithmetic
import numpy as np
import torch

from fedgrain.heads import CondSoftmax, DecoupledModel, decouple
from fedgrain.nets import build_net
from fedgrain.scoring.rules import predict
from fedgrain.taxonomy import DEFAULT_MAX_CHILDREN, coarsen, dataset_taxonomy


def main() -> None:
    """Train, search, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, to see that it runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    steps, samples, repeats = (30, 64, 1) if arguments.quick else (300, 512, 3)
    tree = coarsen(dataset_taxonomy("cifar100"), DEFAULT_MAX_CHILDREN["cifar100"]).taxonomy
    head = CondSoftmax(tree)
    random = torch.Generator().manual_seed(0)
    net = build_net("cnn-32", head.num_outputs, generator=random)
    patterns = torch.randn(len(tree), 3, 4, 4, generator=random)
    patterns = patterns.repeat_interleave(8, 2).repeat_interleave(8, 3)
    leaves = torch.tensor(tree.leaves.astype(np.int64))

    def draw(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = leaves[torch.randint(len(leaves), (count,), generator=random)]
        return patterns[labels] + torch.randn(count, 3, 32, 32, generator=random), labels

    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(steps):
        images, labels = draw(32)
        optimizer.zero_grad()
        head.loss(net(images), labels).backward()
        optimizer.step()
    model = DecoupledModel(tree, decouple(net, head))
    images, labels = draw(samples)
    ratios = []
    for _ in range(repeats):
        start = time.perf_counter()
        every = predict(model.node_log_probs(images), tree)
        middle = time.perf_counter()
        found = model.best_leaf(images)
        ratios.append((time.perf_counter() - middle) / (middle - start))
        assert (found.leaf.numpy() == every).all()
    result = {
        "samples": samples,
        "leaf_accuracy": float((found.leaf == labels).double().mean()),
        "branches": len(model.branches),
        "branches_per_sample_mean": float(found.branches.double().mean()),
        "branches_per_sample_max": int(found.branches.max()),
        "time_ratio_search_to_every_branch": statistics.median(ratios),
    }
    if arguments.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name.replace('_', ' '):34} {value:.3g}")


if __name__ == "__main__":
    main()

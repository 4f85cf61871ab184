"""Forward and backward of each head, as a ratio to a plain linear layer with cross-entropy.

Each head has a linear layer of its own number of outputs before it; the peer is a layer of the same
width and `cross_entropy`. Both are timed in turns in the same run, and the median of the ratios is
printed. Batch 32 on the CIFAR-100 tree, batch 128 on the ImageNet tree, one thread. A training step
of cnn-32 at batch 32 stands beside them for scale.

    python benchmarks/heads.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import fedgrain  # noqa: F401  # isort: skip - before torch: it settles the arithmetic
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgrain.heads import HEADS, Head, build_head, supervise
from fedgrain.knowledge.labeller import labeller_model
from fedgrain.nets import build_net
from fedgrain.taxonomy.classes import DEFAULT_MAX_CHILDREN, dataset_taxonomy
from fedgrain.taxonomy.coarsen import coarsen
from fedgrain.taxonomy.tree import Taxonomy

FEATURES = 1600  # inputs of the linear layer, as in cnn-32
BATCH = {"cifar100": 32, "imagenet": 128}


def step(layer: nn.Module, inputs: Tensor, loss: Callable[[Tensor], Tensor]) -> float:
    """Seconds of one forward and backward pass."""
    layer.zero_grad(set_to_none=True)
    start = time.perf_counter()
    loss(layer(inputs)).backward()
    return time.perf_counter() - start


def compare(
    layer: nn.Module, inputs: Tensor, mine: Callable[[Tensor], Tensor], repeats: int
) -> tuple[float, float, float]:
    """Median milliseconds of ``mine`` and of plain cross-entropy, and the median ratio."""
    outputs = layer(inputs).shape[1]
    targets = torch.arange(len(inputs)) % outputs
    pairs = []
    for repeat in range(repeats + 3):
        ours = step(layer, inputs, mine)
        plain = step(layer, inputs, lambda logits: functional.cross_entropy(logits, targets))
        if repeat >= 3:
            pairs.append((ours, plain))
    return (
        statistics.median(ours for ours, _ in pairs) * 1e3,
        statistics.median(plain for _, plain in pairs) * 1e3,
        statistics.median(ours / plain for ours, plain in pairs),
    )


def losses_of(head: Head, labels: Tensor, known: np.ndarray) -> dict[str, Callable]:
    """Return the head's loss under every supervision that has a meaning for it."""
    writes = [labeller_model(head.taxonomy, known[None], laziness=0.1).writes(0)]
    found = {}
    for supervision in head.supervisions:
        supervised = supervise(head, supervision, known=known, writes=writes)
        found[supervision] = lambda logits, s=supervised: s.loss(logits, labels)
    return found


def projected_labels(taxonomy: Taxonomy, batch: int) -> tuple[Tensor, np.ndarray]:
    """Labels of a client that knows every second leaf, and its knowledge."""
    known = np.zeros(len(taxonomy), dtype=np.bool_)
    for leaf in taxonomy.leaves[::2]:
        known[taxonomy.path(leaf)] = True
    written = [
        [node for node in taxonomy.path(leaf) if known[node]][-1] for leaf in taxonomy.leaves
    ]
    chosen = np.random.default_rng(0).choice(written, batch)
    return torch.tensor(chosen.astype(np.int64)), known


def measure(dataset: str, repeats: int) -> list[dict[str, str | float]]:
    """One row per head and supervision."""
    taxonomy = coarsen(dataset_taxonomy(dataset), DEFAULT_MAX_CHILDREN[dataset]).taxonomy
    labels, known = projected_labels(taxonomy, BATCH[dataset])
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(BATCH[dataset], FEATURES, generator=generator)
    rows: list[dict[str, str | float]] = []
    for name in HEADS:
        head = build_head(name, taxonomy)
        layer = nn.Linear(FEATURES, head.num_outputs)
        for supervision, loss in losses_of(head, labels, known).items():
            ours, plain, ratio = compare(layer, inputs, loss, repeats)
            rows.append(
                {
                    "tree": dataset,
                    "batch": BATCH[dataset],
                    "head": name,
                    "supervision": supervision,
                    "ms": ours,
                    "plain_ms": plain,
                    "ratio": ratio,
                }
            )
    return rows


def net_step(repeats: int) -> float:
    """Median milliseconds of forward and backward of cnn-32 with cross-entropy, batch 32."""
    net = build_net("cnn-32", 122, generator=torch.Generator().manual_seed(0))
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(32, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    targets = torch.arange(32)
    times = [
        step(net, images, lambda logits: functional.cross_entropy(logits, targets))
        for _ in range(repeats)
    ]
    return statistics.median(times) * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    repeats = 5 if arguments.quick else 60
    rows = [row for dataset in BATCH for row in measure(dataset, repeats)]
    whole_net = net_step(min(repeats, 15))
    if arguments.json:
        print(json.dumps({"rows": rows, "cnn_32_step_ms": whole_net}))
        return
    print(f"{'tree':9} batch {'head':19} {'supervision':11} {'ms':>7} {'plain':>7} {'ratio':>6}")
    for row in rows:
        print(
            f"{row['tree']:9} {row['batch']:5} {row['head']:19} {row['supervision']:11} "
            f"{row['ms']:7.2f} {row['plain_ms']:7.2f} {row['ratio']:6.2f}"
        )
    print(f"a whole step of cnn-32 with cross-entropy, batch 32: {whole_net:.1f} ms")


if __name__ == "__main__":
    main()

"""Print digests of what training, prediction and preparation compute; run in a process of its own.

On every x86-64 CPU with AVX2 portable arithmetic must print the same; ``scripts/other_cpus.py``
runs this on CPUs that QEMU emulates.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from functools import partial

import fedgrain  # isort: skip - before torch: it settles the arithmetic
import numpy as np
import torch

from fedgrain.arithmetic import in_use
from fedgrain.data.partition import partition_dirichlet
from fedgrain.heads import build_head
from fedgrain.nets import build_net
from fedgrain.nets.dropout import set_dropout_generator
from fedgrain.scoring.rules import node_log_probs
from fedgrain.taxonomy import dataset_taxonomy


def digest(*arrays: torch.Tensor | np.ndarray) -> str:
    """Hash the bytes."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:16]


def trained(head_name: str, net_name: str, side: int, batch: int, steps: int) -> str:
    """Train a few steps; hash the weights and the probabilities of new images."""
    tree = dataset_taxonomy("cifar100")
    head = build_head(head_name, tree)
    random = torch.Generator().manual_seed(1)
    shape = (side, side, 3)
    net = build_net(net_name, head.num_outputs, generator=random, image_shape=shape)
    net = net.to(memory_format=torch.channels_last)
    set_dropout_generator(net, random)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, fused=True)
    leaves = torch.tensor(tree.leaves.astype(np.int64))
    for _ in range(steps):
        images = torch.randn(batch, 3, side, side, generator=random)
        labels = leaves[torch.randint(len(leaves), (batch,), generator=random)]
        optimizer.zero_grad()
        head.loss(net(images.to(memory_format=torch.channels_last)), labels).backward()
        optimizer.step()
    probabilities = node_log_probs(net, head, torch.randn(5, 3, side, side, generator=random))
    return digest(*(weight.detach() for weight in net.parameters()), probabilities)


def prepared() -> str:
    """Hash what numpy computes: shares of clients, products, exponentials, logarithms."""
    random = np.random.default_rng(1)
    numbers = random.random((100, 100)) + 0.1
    sums = numbers @ numbers, numbers[0] @ numbers[1], numbers.sum(), np.linalg.norm(numbers)
    labels = random.integers(10, size=500)
    parts = partition_dirichlet(labels, 5, 0.3, seed=1)
    return digest(*sums, np.exp(numbers), np.log(numbers), np.sqrt(numbers), *parts)


HEADS = ("flat-softmax", "ps-softmax", "cond-sigmoid", "cond-softmax", "softmax-descendant")
PARTS: dict[str, Callable[[], str]] = {
    **{head: partial(trained, head, "cnn-32", 32, 32, 2) for head in (*HEADS, "softmax-margin")},
    "last batch": partial(trained, "cond-softmax", "cnn-32", 32, 7, 1),
    "squeezenet": partial(trained, "cond-softmax", "squeezenet", 95, 4, 1),
    "numpy": prepared,
}


def main() -> None:
    """Print one JSON object, of all parts or of those named."""
    torch.set_num_threads(1)
    found = {name: PARTS[name]() for name in sys.argv[1:] or PARTS}
    print(json.dumps({"arithmetic": in_use(), "version": fedgrain.__version__, "bits": found}))


if __name__ == "__main__":
    main()

"""Coarsening against Algorithm 2 taken literally, and on large trees.

    python benchmarks/coarsen.py [--quick]

Prints the ratio to the literal implementation (scikit-learn's silhouette score on every subset,
tests/literal_coarsening.py) on TinyImageNet, both measured in turn in this run; then time and peak
memory for ImageNet and for a random tree of 12,000 nodes with 8,000 leaves.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fedgrain.taxonomy import Taxonomy, coarsen, dataset_taxonomy


def seconds(function: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def random_tree(nodes: int, leaves: int, seed: int) -> Taxonomy:
    """Inner nodes hang from earlier inner nodes at random; every leaf from an inner node."""
    rng = np.random.default_rng(seed)
    inner = nodes - leaves
    edges = [(f"i{rng.integers(node):05d}", f"i{node:05d}") for node in range(1, inner)]
    childless = sorted({f"i{n:05d}" for n in range(inner)} - {parent for parent, _ in edges})
    homes = childless + [f"i{n:05d}" for n in rng.integers(inner, size=leaves - len(childless))]
    return Taxonomy.from_edges(edges + [(home, f"l{n:05d}") for n, home in enumerate(homes)])


def report_large(which: str) -> None:
    """Coarsen one large tree in this process; print its time and the process's peak memory."""
    if which == "imagenet":
        tree, most = dataset_taxonomy("imagenet"), 32
    else:
        tree, most = random_tree(12_000, 8_000, seed=1), int(which)
    start = time.perf_counter()
    coarsening = coarsen(tree, most)
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    kind = "ImageNet" if which == "imagenet" else "random tree"
    print(
        f"{kind}: {len(tree)} nodes, {len(tree.leaves)} leaves, M={most}: {took:.2f} s, "
        f"peak memory {peak:.2f} GiB, exact: {str(coarsening.exact).lower()}, "
        f"{coarsening.taxonomy.properties()['internal']} internal nodes left",
        flush=True,
    )


def report_ratio(repeats: int) -> None:
    """Print how many times faster than the literal implementation, medians of the same run."""
    from literal_coarsening import coarsen_literally

    tree = dataset_taxonomy("tiny-imagenet")
    ours, literal = [], []
    for _ in range(repeats):
        ours.append(seconds(lambda: coarsen(tree, 10, "neutral")))
        literal.append(seconds(lambda: coarsen_literally(tree, 10, "neutral")))
    equal = coarsen(tree, 10, "neutral").taxonomy == coarsen_literally(tree, 10, "neutral")
    fast, slow = statistics.median(ours), statistics.median(literal)
    print(
        f"TinyImageNet, neutral, M=10: literal {slow:.3f} s, ours {fast:.4f} s, "
        f"ratio {slow / fast:.0f}x (median of {repeats}), same tree: {str(equal).lower()}",
        flush=True,
    )


def main() -> None:
    """Run all, each large tree in a process of its own so that peak memory is its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats, no random tree")
    parser.add_argument("--large", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.large:
        report_large(args.large)
        return
    report_ratio(1 if args.quick else 5)
    for which in ["imagenet"] if args.quick else ["imagenet", "10", "32"]:
        subprocess.run([sys.executable, __file__, "--large", which], check=True)


if __name__ == "__main__":
    main()

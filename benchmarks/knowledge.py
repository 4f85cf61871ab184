"""Time and memory of Algorithm 1 on the ImageNet taxonomy.

Memory is the peak of the arrays made while generating, as tracemalloc sees them, so that it can be
told apart from the interpreter's own.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

from fedgrain.knowledge import project, relational_neighbours
from fedgrain.taxonomy import DEFAULT_MAX_CHILDREN, Taxonomy, coarsen, dataset_taxonomy

CLIENTS = (10, 100, 1000)
RULES = (("complete", "random"), ("complete", "coherent"), ("tree", "random"))
ALPHA = 0.9


def seconds(full: Taxonomy, clients: int, graph: str, expertise: str) -> float:
    """Return the time of generating knowledge once."""
    start = time.perf_counter()
    relational_neighbours(full, clients, ALPHA, 47, graph, expertise)
    return time.perf_counter() - start


def peak_megabytes(full: Taxonomy, clients: int, graph: str, expertise: str) -> float:
    """Return the peak of memory while generating once; tracing makes it slower, so apart."""
    tracemalloc.start()
    relational_neighbours(full, clients, ALPHA, 47, graph, expertise)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def main() -> None:
    """Print a row per rule and number of clients with ratios to ten clients; then the memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 and 100 clients, once")
    quick = parser.parse_args().quick
    counts = CLIENTS[:2] if quick else CLIENTS
    full = dataset_taxonomy("imagenet")
    print(f"ImageNet taxonomy: {len(full)} nodes, {len(full.leaves)} leaves; alpha {ALPHA}")
    best: dict[tuple[str, str, int], float] = {}
    for _ in range(1 if quick else 2):  # interleaved: every rule meets the same noise
        for rule in RULES:
            for clients in counts:
                key = (*rule, clients)
                best[key] = min(best.get(key, float("inf")), seconds(full, clients, *rule))
    print(f"{'graph':<10}{'expertise':<11}{'clients':>8}{'seconds':>9}{'ratio':>7}")
    for (graph, expertise, clients), took in best.items():
        ratio = took / best[graph, expertise, counts[0]]
        print(f"{graph:<10}{expertise:<11}{clients:>8}{took:>9.2f}{ratio:>7.1f}")
    print(f"{'clients':>8}{'peak MB':>9}{'clients x nodes^2 would take, MB':>35}")
    for clients in counts:
        peak = peak_megabytes(full, clients, *RULES[0])
        print(f"{clients:>8}{peak:>9.1f}{clients * len(full) ** 2 * 8 / 1e6:>35.0f}")
    coarse = coarsen(full, DEFAULT_MAX_CHILDREN["imagenet"]).taxonomy
    knowledge = relational_neighbours(full, counts[-1], ALPHA, 47)
    start = time.perf_counter()
    project(coarse, knowledge)
    print(f"project, {counts[-1]} clients: {time.perf_counter() - start:.3f} seconds")


if __name__ == "__main__":
    main()

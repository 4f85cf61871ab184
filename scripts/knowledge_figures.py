"""Draw and print what docs/knowledge.md shows: python scripts/knowledge_figures.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedgrain.knowledge import (
    Knowledge,
    hidden_leaves,
    knowledge_statistics,
    known_paths_only,
    project,
    relational_neighbours,
)
from fedgrain.knowledge.relational import Neighbours
from fedgrain.pictures.knowledge_figures import alpha_grid, draw_comparison, draw_properties
from fedgrain.pictures.radial_tree import draw_radial_tree
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy import DEFAULT_MAX_CHILDREN, Taxonomy, coarsen, dataset_taxonomy

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
CLIENTS = 10
SEEDS = range(47, 52)
SETTINGS = {
    "CIFAR-100": ("cifar100", "complete", "random"),
    "TinyImageNet": ("tiny-imagenet", "complete", "random"),
    "ImageNet": ("imagenet", "complete", "random"),
    "CIFAR-100, coherent": ("cifar100", "complete", "coherent"),
    "CIFAR-100, tree graph": ("cifar100", "tree", "random"),
}


def main() -> None:
    """Draw the figures into docs/figures and print the tables."""
    alphas = alpha_grid(CLIENTS, step=0.025)
    cifar = dataset_taxonomy("cifar100")
    compare(cifar, alphas)
    coarse = coarsen(cifar, DEFAULT_MAX_CHILDREN["cifar100"]).taxonomy
    over_alpha = [(a, relational_neighbours(cifar, CLIENTS, a, 47)) for a in alpha_grid(CLIENTS)]
    for path in draw_properties(over_alpha, FIGURES):
        path.replace(path.with_name(f"knowledge-{path.name}"))
    for expertise in ("random", "coherent"):
        knowledge = relational_neighbours(cifar, CLIENTS, 0.9, 47, expertise=expertise)
        title = f"CIFAR-100, alpha 0.9, {expertise} expertise, client 0"
        stem = FIGURES / f"knowledge-tree-{expertise}"
        draw_radial_tree(coarse, stem, knowledge.on(coarse)[0], title)
    print_options(cifar, coarse)
    print("\nDeviation of p within a client's unlabeled nodes, CIFAR-100, alpha 0.7")
    for expertise in ("random", "coherent"):
        print(f"{expertise}: {deviation_within(cifar, expertise):.3f}")


def compare(cifar: Taxonomy, alphas: list[float]) -> None:
    """Draw Algorithm 1 beside the naive generators, and print how it fills the unlabeled nodes."""
    generators = {
        "leaves hidden": hidden_leaves,
        "Algorithm 1 (pRN)": relational_neighbours,
        "known paths only": known_paths_only,
    }
    known_nodes = {
        f"{name}, CIFAR-100": np.array(
            [np.mean([make(cifar, CLIENTS, a, s).known.sum(1) for s in SEEDS]) for a in alphas]
        )
        for name, make in generators.items()
    }
    filled = {
        name: np.array([filled_share(dataset_taxonomy(data), a, *rule) for a in alphas])
        for name, (data, *rule) in SETTINGS.items()
    }
    draw_comparison(alphas, known_nodes, filled, FIGURES / "knowledge-comparison")
    print("Share of unlabeled nodes that become known (10 clients, seeds 47-51)\n")
    print("| alpha | " + " | ".join(filled) + " |\n|---|" + "---|" * len(filled))
    for number, alpha in enumerate(alphas):
        if alpha == 0.3 or 0.575 < alpha < 0.825 or alpha == 0.9:
            shares = " | ".join(f"{values[number]:.2f}" for values in filled.values())
            print(f"| {alpha:g} | {shares} |")


def filled_share(taxonomy: Taxonomy, alpha: float, graph: str, expertise: str) -> float:
    """Return the share of unlabeled nodes that Algorithm 1 makes known; nan if there are none."""
    filled = unlabeled = 0
    for seed in SEEDS:
        rule = {"clients": CLIENTS, "alpha": alpha, "seed": seed, "expertise": expertise}
        on_paths = known_paths_only(taxonomy, **rule).known
        unlabeled += int((hidden_leaves(taxonomy, **rule).known & ~on_paths).sum())
        relational = relational_neighbours(taxonomy, graph=graph, **rule).known
        filled += int((relational & ~on_paths).sum())
    return filled / unlabeled if unlabeled else float("nan")


def deviation_within(taxonomy: Taxonomy, expertise: str) -> float:
    """Return how far apart a client's unlabeled nodes end up: their deviation, mean of clients."""
    neighbours = Neighbours.of(taxonomy)
    inner = taxonomy.internal
    deviations = []
    for seed in SEEDS:
        for known in known_paths_only(taxonomy, CLIENTS, 0.7, seed, expertise).known:
            probability = neighbours.propagate(known, numpy_generator(seed, "docs"))
            deviations.append(probability[inner[~known[inner]]].std())
    return float(np.mean(deviations))


def print_options(full: Taxonomy, coarse: Taxonomy) -> None:
    """Print what the options change on CIFAR-100, means over 10 clients and 5 seeds."""
    print("\nCIFAR-100, means over 10 clients and seeds 47-51\n")
    print(
        "| alpha | graph | expertise | known nodes | similarity of known nodes "
        "| similarity of known leaves | mean depth of labels in H |\n|---|---|---|---|---|---|---|"
    )
    for alpha in (0.3, 0.6, 0.7, 0.8, 0.9):
        for graph in ("complete", "tree"):
            for expertise in ("random", "coherent"):
                made = [
                    relational_neighbours(full, CLIENTS, alpha, seed, graph, expertise)
                    for seed in SEEDS
                ]
                row = np.mean([figures_of(knowledge, coarse) for knowledge in made], axis=0)
                shown = f"{row[0]:.1f} | {row[1]:.3f} | {row[2]:.3f} | {row[3]:.2f}"
                print(f"| {alpha:g} | {graph} | {expertise} | {shown} |")


def figures_of(knowledge: Knowledge, coarse: Taxonomy) -> list[float]:
    """Return known nodes, their similarity, that of known leaves, and the mean depth of labels."""
    statistics = knowledge_statistics(knowledge, coarse)
    leaves = knowledge.taxonomy.leaves
    similarity = knowledge.taxonomy.wu_palmer(root_depth=1)[np.ix_(leaves, leaves)]
    np.fill_diagonal(similarity, 0.0)
    known = knowledge.known[:, leaves].astype(float)
    count = known.sum(axis=1)
    among_leaves = ((known @ similarity) * known).sum(axis=1) / (count * (count - 1))
    return [
        float(statistics.known_nodes.mean()),
        float(statistics.mean_similarity.mean()),
        float(among_leaves.mean()),
        float(coarse.depth[project(coarse, knowledge).labels].mean()),
    ]


if __name__ == "__main__":
    main()

"""Print what a model scores that says the same of every image: what a collapse is worth.

python scripts/constant_scores.py [DATASET]    # default cifar100; as many images of each class
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from fedgrain.scoring.metrics import hierarchical_scores
from fedgrain.taxonomy import Taxonomy, coarsen
from fedgrain.taxonomy.classes import DEFAULT_MAX_CHILDREN, dataset_taxonomy


def constant_scores(tree: Taxonomy) -> np.ndarray:
    """Return the mean HF over the leaves of predicting each node, always."""
    return np.array(
        [
            hierarchical_scores(tree.leaves, np.full(len(tree.leaves), node), tree).hf.mean()
            for node in range(len(tree))
        ]
    )


def main() -> int:
    """Print a line per taxonomy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", nargs="?", default="cifar100", choices=DEFAULT_MAX_CHILDREN)
    dataset = parser.parse_args().dataset
    full = dataset_taxonomy(dataset)
    coarse = coarsen(full, DEFAULT_MAX_CHILDREN[dataset]).taxonomy
    for tree, what in ((full, "H_full"), (coarse, "H")):
        scores = constant_scores(tree)
        leaves, best = scores[tree.leaves], int(scores.argmax())
        best_leaf = tree.names[tree.leaves[leaves.argmax()]]
        print(
            f"{what}: a leaf scores {leaves.mean():.3f} in the mean, from {leaves.min():.3f} to "
            f"{leaves.max():.3f} ({best_leaf}); the best of all nodes {scores[best]:.3f} "
            f"({tree.names[best]})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

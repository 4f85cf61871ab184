"""Print what a model scores that says the same of every image: what a collapse is worth.

python scripts/constant_scores.py [DATASET]    # default cifar100; as many images of each class
"""

from __future__ import annotations

import sys

import numpy as np

from fedgrain.preparation.config import Config
from fedgrain.scoring.metrics import hierarchical_scores
from fedgrain.taxonomy import Taxonomy, coarsen
from fedgrain.taxonomy.classes import dataset_taxonomy


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
    name = sys.argv[1] if len(sys.argv) > 1 else "cifar100"
    full = dataset_taxonomy(name)
    most = Config(dataset=name).complete().max_children
    assert most is not None  # a data set of the paper has one
    for tree, what in ((full, "H_full"), (coarsen(full, most).taxonomy, "H")):
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

"""How well each form of laziness recovers simulated labellers; which one held-out labels choose.

Prints the error of T (the mean over classes of half the sum of absolute differences) for labellers
who know all groups and four of ten classes of a tree of 60 classes; six labellers for each row. It
takes a few seconds: python scripts/labeller_forms.py
"""

from __future__ import annotations

import argparse

import numpy as np

from fedgrain.knowledge.labeller import Floats, Ints, LabellerModel, children_of, gathered
from fedgrain.knowledge.labeller_em import FORMS, fitted, learned
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy import Taxonomy

TREE = Taxonomy.from_edges(
    [("r", b) for b in "abcd"]
    + [(b, f"{b}{g}") for b in "abcd" for g in range(3)]
    + [(f"{b}{g}", f"{b}{g}{n}") for b in "abcd" for g in range(3) for n in range(5)]
)
LEAF, BRANCH = TREE.child_counts == 0, TREE.ancestor_table[:, 1]
HALF = np.isin(BRANCH, [TREE.index("a"), TREE.index("b")])
LAZINESS = {
    "never": np.zeros(len(TREE)),
    "half of the classes": np.where(LEAF, 0.5, 0.0),
    "80% of the classes": np.where(LEAF, 0.8, 0.0),
    "30%, and 15% of the groups": np.where(LEAF, 0.3, 0.15),
    "by depth: 0, 50%, 20%": np.choose(TREE.depth, [0.0, 0.0, 0.5, 0.2]),
    "by branch: 80% in two of four": np.where(LEAF & HALF, 0.8, 0.0),
}


def simulated(lazy: Floats, count: int, seed: int) -> tuple[LabellerModel, Ints, Floats]:
    """Return a labeller, its labels, and a model's probabilities of the children of coarse ones."""
    random = numpy_generator(seed, "simulated labeller", count)
    knows = ~LEAF
    knows[random.choice(TREE.leaves, int(0.4 * LEAF.sum()), replace=False)] = True
    labeller = LabellerModel(TREE, knows[None].astype(float), lazy[None])
    table, classes = labeller.writes(0), len(TREE.leaves)
    shows = random.integers(0, classes, count)
    depths = [random.choice(table.shape[1], p=table[leaf]) for leaf in shows.tolist()]
    labels = TREE.ancestor_table[TREE.leaves][shows, depths].astype(np.int64)
    scores = np.exp(random.normal(size=(count, classes)) + 4.0 * np.eye(classes)[shows])
    coarse = np.flatnonzero(TREE.child_counts[labels] > 0)
    children, (first, end) = children_of(TREE, labels[coarse]), TREE.leaf_ranges
    sums = np.pad(scores[coarse].cumsum(axis=1), ((0, 0), (1, 0)))
    rows = np.arange(len(coarse))[:, None]
    below = np.where(children > 0, sums[rows, end[children]] - sums[rows, first[children]], 0.0)
    return labeller, labels, below / below.sum(axis=1, keepdims=True)


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("| labels | stops early | " + " | ".join((*FORMS, "chosen on held-out labels")) + " |")
    print("|---" * (3 + len(FORMS)) + "|")
    for count in (400, 4000):
        for name, lazy in LAZINESS.items():
            errors = []
            for seed in range(6):
                truth, labels, probabilities = simulated(lazy, count, seed)
                evidence = gathered(TREE, labels, None, 1, probabilities)
                found = [learned(TREE, evidence, form) for form in FORMS]
                found.append(fitted(TREE, labels, None, 1, probabilities))
                target = truth.writes(0)
                errors.append([np.abs(one.writes(0) - target).sum(1).mean() / 2 for one in found])
            cells = " | ".join(f"{value:.3f}" for value in np.mean(errors, axis=0))
            print(f"| {count} | {name} | {cells} |")


if __name__ == "__main__":
    main()

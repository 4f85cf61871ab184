"""How well each form of laziness recovers simulated labellers; which one held-out labels choose.

Prints the error of T (the mean over classes of half the sum of absolute differences) for labellers
who know all groups and four of ten classes of a tree of 60 classes; six labellers for each row. The
first column takes as known what was written at least twice; in all others knowledge is hidden, with
a probability for each node. It takes about ten seconds: python scripts/labeller_forms.py
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from fedgrain.knowledge.labeller import (
    BoolArray,
    Evidence,
    Floats,
    Ints,
    LabellerModel,
    children_of,
    gathered,
    labeller_model,
)
from fedgrain.knowledge.labeller_em import FORMS, fitted, learned, next_model
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy import Taxonomy
from published.markdown_table import markdown

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
TAILED = {"never, long tail": 0.0, "half of the classes, long tail": 0.5}
SLIPS = {"never, slips": 0.0, "half of the classes, slips": 0.5}
SLIP = 0.02  # the share of labels that are a random class
STEPS = 50


def known_groups(random: np.random.Generator, share: float) -> BoolArray:
    """Return all groups, and a share of the classes."""
    known = ~LEAF
    known[random.choice(TREE.leaves, int(share * LEAF.sum()), replace=False)] = True
    return known


def simulated(
    lazy: Floats,
    count: int,
    seed: int,
    *,
    tail: bool = False,
    slip: float = 0.0,
    knows: BoolArray | None = None,
) -> tuple[LabellerModel, Ints, Floats]:
    """Return a labeller, its labels, and a model's probabilities of the children of coarse ones.

    With a long tail the frequencies of classes fall from 1 to 1/100, geometrically.
    """
    random = numpy_generator(seed, "simulated labeller", count)
    known = known_groups(random, 0.4) if knows is None else knows
    labeller = LabellerModel(TREE, known[None].astype(float), lazy[None])
    table, classes = labeller.writes(0), len(TREE.leaves)
    often = 100.0 ** -(random.permutation(classes) / (classes - 1)) if tail else np.ones(classes)
    shows = random.choice(classes, count, p=often / often.sum())
    depths = [random.choice(table.shape[1], p=table[leaf]) for leaf in shows.tolist()]
    labels = TREE.ancestor_table[TREE.leaves][shows, depths].astype(np.int64)
    wrong = random.random(count) < slip
    labels[wrong] = random.choice(TREE.leaves, int(wrong.sum()))
    scores = np.exp(random.normal(size=(count, classes)) + 4.0 * np.eye(classes)[shows])
    coarse = np.flatnonzero(TREE.child_counts[labels] > 0)
    children, (first, end) = children_of(TREE, labels[coarse]), TREE.leaf_ranges
    sums = np.pad(scores[coarse].cumsum(axis=1), ((0, 0), (1, 0)))
    rows = np.arange(len(coarse))[:, None]
    below = np.where(children > 0, sums[rows, end[children]] - sums[rows, first[children]], 0.0)
    return labeller, labels, below / below.sum(axis=1, keepdims=True)


def written_twice(evidence: Evidence) -> LabellerModel:
    """Return the labeller with one laziness for leaves and one for groups, and known for certain.

    What it wrote at least twice, or something below of, it knows.
    """
    model = labeller_model(TREE, evidence.passes >= 2, laziness=0.1)
    model = replace(model, lazy=np.full(model.lazy.shape, 0.1))
    for _ in range(STEPS):
        model = replace(next_model(model, evidence), knows=model.knows)
    return model


def errors(lazy: Floats, count: int, seed: int, *, tail: bool, slip: float) -> list[float]:
    """Return the error of T of each way to learn one simulated labeller."""
    truth, labels, probabilities = simulated(lazy, count, seed, tail=tail, slip=slip)
    evidence = gathered(TREE, labels, None, 1, probabilities)
    found = [written_twice(evidence), *(learned(TREE, evidence, form) for form in FORMS)]
    found.append(fitted(TREE, labels, None, 1, probabilities))
    target = truth.writes(0)
    return [float(np.abs(one.writes(0) - target).sum(1).mean() / 2) for one in found]


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = {name: (lazy, False, 0.0) for name, lazy in LAZINESS.items()}
    rows |= {name: (np.where(LEAF, share, 0.0), True, 0.0) for name, share in TAILED.items()}
    rows |= {name: (np.where(LEAF, share, 0.0), False, SLIP) for name, share in SLIPS.items()}
    ways = ("written twice", *FORMS, "chosen on held-out labels")
    lines = []
    for count in (400, 4000):
        for name, (lazy, tail, slip) in rows.items():
            of_seeds = [errors(lazy, count, seed, tail=tail, slip=slip) for seed in range(6)]
            lines.append([str(count), name, *(f"{one:.3f}" for one in np.mean(of_seeds, axis=0))])
    print(markdown(["labels", "stops early", *ways], lines))


if __name__ == "__main__":
    main()

"""What an annotator with few labels gains if it is learned together with its colleagues.

Prints the error of T (the mean over classes of half the sum of absolute differences) for four
annotators of a site, on the simulated tree of labeller_forms.py: each learned alone, all read as
one labeller, and each drawn towards the site as far as its labels are few, as fedgrain does. Six
sites for each row. It takes about ten seconds: python scripts/labeller_pooling.py
"""

from __future__ import annotations

import argparse

import numpy as np

from fedgrain.knowledge.labeller import BoolArray, LabellerModel, gathered
from fedgrain.knowledge.labeller_em import learned
from fedgrain.randomness import numpy_generator
from labeller_forms import LEAF, TREE, known_groups, simulated
from published.markdown_table import markdown

SIZES = (2000, 500, 100, 20)  # labels of the four annotators
RATES = {"alike": (0.4, 0.4, 0.4, 0.4), "knowledge and laziness of their own": (0.1, 0.8, 0.4, 0.6)}
WAYS = ("alone", "as one labeller", "drawn towards the site")


def known_of(alike: bool, seed: int, annotator: int) -> BoolArray:
    """Return what an annotator knows: all the same, or half of it of its own."""
    common = known_groups(numpy_generator(seed, "known in common"), 0.4)
    own = known_groups(numpy_generator(seed, "known by one", annotator), 0.4)
    half = numpy_generator(seed, "halves").random(len(TREE)) < 0.5
    return common if alike else np.where(half, common, own)


def errors(name: str, seed: int) -> list[list[float]]:
    """Return the error of T of each annotator [annotators, ways] at one site."""
    truths, labels, probabilities = [], [], []
    for number, (size, rate) in enumerate(zip(SIZES, RATES[name], strict=True)):
        knows, lazy = known_of(name == "alike", seed, number), np.where(LEAF, rate, 0.0)
        truth, wrote, below = simulated(lazy, size, 10 * seed + number, knows=knows)
        truths.append(truth.writes(0))
        labels.append(wrote)
        probabilities.append(np.pad(below, ((0, 0), (0, 5 - below.shape[1]))))
    who = np.repeat(np.arange(len(SIZES)), SIZES)
    all_labels, every = np.concatenate(labels), np.concatenate(probabilities)
    together = learned(TREE, gathered(TREE, all_labels, who, len(SIZES), every))
    as_one = learned(TREE, gathered(TREE, all_labels, None, 1, every))
    found = []
    for number, truth in enumerate(truths):
        alone = learned(TREE, gathered(TREE, labels[number], None, 1, probabilities[number]))
        pairs: list[tuple[LabellerModel, int]] = [(alone, 0), (as_one, 0), (together, number)]
        off = [np.abs(model.writes(row) - truth).sum(1).mean() / 2 for model, row in pairs]
        found.append([float(one) for one in off])
    return found


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    lines = []
    for name in RATES:
        means = np.mean([errors(name, seed) for seed in range(6)], axis=0)
        for size, row in zip(SIZES, means, strict=True):
            lines.append([name, str(size), *(f"{value:.3f}" for value in row)])
    print(markdown(["annotators", "labels of this one", *WAYS], lines))


if __name__ == "__main__":
    main()

"""How good a model is on validation images, and against what it was compared.

Where a label is coarse, a prediction below it is cut back to it before they are compared, so a
coarse label cannot tell a specific model from a vague one. A mean over such labels is no score of
the model: it says how coarse the labels are. So three means go together, each with its count: over
the labels that are leaves, over all labels, and over all labels weighted by what each tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgrain.scoring.metrics import comparable, hierarchical_scores
from fedgrain.taxonomy.tree import Taxonomy


@dataclass(frozen=True)
class ValidationScore:
    """Means of HF over validation labels, with the number of labels behind each.

    ``weighted_hf`` decides early stopping. The weight of a label is 1 at a leaf and 0 at the root
    (see :func:`label_weights`), so nothing is gained by being vague. If all labels are leaves, the
    three means are equal to the bit.
    """

    hf: float  # over all labels, predictions cut back where a label is coarse
    samples: float
    leaf_hf: float | None = None  # over the labels that are leaves; None if there are none
    leaf_samples: float = 0
    weighted_hf: float | None = None  # over all labels by weight; None if all are the root
    weight: float = 0.0  # sum of the weights

    @property
    def leaf_share(self) -> float:
        """The share of labels that are leaves."""
        return self.leaf_samples / self.samples if self.samples else 0.0

    def by(self, measure: str) -> float | None:
        """Return the mean that a measure of early stopping names: hf, leaf_hf or weighted_hf."""
        value: float | None = getattr(self, measure)
        return value

    def counted_as(self, samples: float) -> ValidationScore:
        """Return the same means with the weight of another number of samples."""
        share = samples / self.samples if self.samples else 0.0
        return ValidationScore(
            self.hf, samples, self.leaf_hf, self.leaf_samples * share,
            self.weighted_hf, self.weight * share,
        )  # fmt: skip

    def entries(self) -> dict[str, Any]:
        """Return the score as JSON holds it."""
        return {
            "hf": self.hf,
            "samples": _whole(self.samples),
            "leaf_hf": self.leaf_hf,
            "leaf_samples": _whole(self.leaf_samples),
            "leaf_share": self.leaf_share,
            "weighted_hf": self.weighted_hf,
            "weight": _whole(self.weight),
        }


def read_score(entries: Mapping[str, Any] | None) -> ValidationScore | None:
    """Return the score that :meth:`ValidationScore.entries` wrote."""
    if entries is None:
        return None
    return ValidationScore(**{n: v for n, v in entries.items() if n != "leaf_share"})


def label_weights(labels: NDArray[Any], taxonomy: Taxonomy) -> NDArray[np.float64]:
    """Return how much each label tells, from 0 (the root) to 1 (a leaf).

    It is the share of the information in the name of a leaf: 1 - log(leaves below) / log(leaves).
    """
    if len(taxonomy.leaves) == 1:
        return np.ones(len(labels))
    below = np.log(taxonomy.leaf_counts[labels].astype(np.float64))
    return np.asarray(1.0 - below / np.log(float(len(taxonomy.leaves))))


def validation_score(
    nodes: ArrayLike, labels: NDArray[Any], taxonomy: Taxonomy, full_taxonomy: Taxonomy
) -> ValidationScore:
    """Score predicted nodes of H against labels that are nodes of H; HF is that of H_full."""
    truth = taxonomy.numbers_in(full_taxonomy)[labels]
    prediction = comparable(nodes, truth, taxonomy, full_taxonomy)
    hf = hierarchical_scores(truth, prediction, full_taxonomy).hf
    leaves, weights = taxonomy.is_leaf(labels), label_weights(labels, taxonomy)
    weight = float(weights.sum())
    return ValidationScore(
        float(hf.mean()),
        len(hf),
        float(hf[leaves].mean()) if leaves.any() else None,
        int(leaves.sum()),
        float((hf * weights).sum() / weight) if weight else None,
        weight,
    )


def weighted_mean(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the mean of means weighted by their samples; None without samples.

    Every engine combines the clients' scores this way, so that they agree to the bit.

    >>> weighted_mean([(0.5, 10), (0.9, 0), (1.0, 30)])
    0.875
    """
    counted = [(mean, samples) for mean, samples in pairs if samples]
    if len(counted) == 1:
        return counted[0][0]  # exactly: multiplying and dividing by its samples could round it
    total = sum(samples for _, samples in counted)
    return sum(mean * samples for mean, samples in counted) / total if total else None


def combined(scores: Sequence[ValidationScore]) -> ValidationScore | None:
    """Return the score over everyone's samples; None without samples."""
    hf = weighted_mean([(score.hf, score.samples) for score in scores])
    if hf is None:
        return None
    return ValidationScore(
        hf,
        sum(score.samples for score in scores),
        weighted_mean([(score.leaf_hf or 0.0, score.leaf_samples) for score in scores]),
        sum(score.leaf_samples for score in scores),
        weighted_mean([(score.weighted_hf or 0.0, score.weight) for score in scores]),
        sum(score.weight for score in scores),
    )


def describe(
    validation: Mapping[str, Any] | None,
    hf: float | None,
    digits: int = 4,
    name: str = "validation HF",
) -> str:
    """Say a score and against what; ``validation`` is as in ``metrics.jsonl``, None if unknown.

    >>> describe({"samples": 9, "hf": 0.9, "leaf_samples": 3, "leaf_hf": 0.5}, 0.9)
    'validation HF 0.5000 over 3 leaf labels (33% of 9), 0.9000 over all, cut back'
    >>> describe(None, None)
    'not validated'
    """
    if hf is None:
        return "not validated"
    if not validation:
        return f"{name} {hf:.{digits}f}"
    samples, leaves = validation["samples"], validation["leaf_samples"]
    if leaves == samples:
        return f"{name} {hf:.{digits}f} over {samples:.0f} leaf labels"
    cut = f"{hf:.{digits}f} over all, cut back"
    if not leaves:
        return f"{name} {cut}; none of the {samples:.0f} labels is a leaf"
    share = f"{leaves:.0f} leaf labels ({leaves / samples:.0%} of {samples:.0f})"
    return f"{name} {validation['leaf_hf']:.{digits}f} over {share}, {cut}"


def _whole(count: float) -> float:
    """Return a count as a whole number where it is one."""
    return int(count) if count == int(count) else count

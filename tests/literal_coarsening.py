"""Algorithm 2 word for word, with scikit-learn's silhouette score: slow, for comparison only."""

from itertools import combinations

import numpy as np
from sklearn.metrics import silhouette_score

from fedgrain.taxonomy import Taxonomy

TIE = 1e-9


def cohesive_silhouette(distance: np.ndarray, labels: np.ndarray) -> float:
    """Mean silhouette; the own cluster's mean counts the leaf itself, so a singleton scores 1."""
    scores = []
    for leaf in range(len(labels)):
        means = {label: distance[leaf, labels == label].mean() for label in np.unique(labels)}
        own = means.pop(labels[leaf])
        other = min(means.values())
        scores.append((other - own) / max(own, other))
    return float(np.mean(scores))


def neutral_silhouette(distance: np.ndarray, labels: np.ndarray) -> float:
    """scikit-learn's score; it raises where every leaf is a cluster of its own: score that 0."""
    if len(np.unique(labels)) == len(labels):
        return 0.0
    return float(silhouette_score(distance, labels, metric="precomputed"))


def coarsen_literally(taxonomy: Taxonomy, max_children: int, singletons: str) -> Taxonomy:
    """Score every subset at every node from the distances themselves."""
    score_of = {"cohesive": cohesive_silhouette, "neutral": neutral_silhouette}[singletons]
    distance = 1.0 - taxonomy.wu_palmer(root_depth=1)
    np.fill_diagonal(distance, 0.0)
    children = {int(u): [int(c) for c in taxonomy.children(int(u))] for u in taxonomy.internal}
    merged = set()

    def leaves_under(node: int) -> list[int]:
        return (
            [leaf for c in children[node] for leaf in leaves_under(c)]
            if node in children
            else [node]
        )

    def post_order(node: int) -> list[int]:
        if node not in children:
            return []
        return [x for c in children[node] for x in post_order(c)] + [node]

    for u in post_order(0):
        inner = [v for v in children[u] if v in children]
        leaves = leaves_under(u)
        matrix = distance[np.ix_(leaves, leaves)]
        scored = []
        for size in range(len(inner), -1, -1):  # the larger first, then in child order
            for subset in combinations(inner, size):
                new = [x for v in children[u] for x in (children[v] if v in subset else [v])]
                if len(new) > max_children or len(new) == 1:
                    continue
                owner = {leaf: n for n, child in enumerate(new) for leaf in leaves_under(child)}
                labels = np.array([owner[leaf] for leaf in leaves])
                scored.append((score_of(matrix, labels), subset, new))
        if inner and scored:
            best = max(score for score, _, _ in scored)
            _, subset, new = next(row for row in scored if row[0] >= best - TIE)
            children[u] = new
            merged.update(subset)
    return taxonomy.keep(np.array([node not in merged for node in range(len(taxonomy))]))

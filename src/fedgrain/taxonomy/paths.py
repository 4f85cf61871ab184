"""From a graph with several parents to one tree: the path rule (method, section 2).

Every class keeps one of its longest paths to the root: the one with the fewest edges that
contradict a parent fixed earlier; on a tie the one with the largest sum of use(n), then the first
in pointer order. The costs add up along a path, so dynamic programming finds the best one without
listing all paths, of which a graph may have exponentially many.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedgrain.taxonomy.tree import Taxonomy

_Parents = Mapping[str, Sequence[str]]  # node -> its parents in pointer order


def ancestors_upwards(parents_of: _Parents, start: str) -> list[str]:
    """Return ``start`` and all its ancestors, breadth first."""
    met = {start: None}
    for node in (queue := [start]):
        for parent in parents_of.get(node, ()):
            if parent not in met:
                met[parent] = None
                queue.append(parent)
    return list(met)


def longest_distances(parents_of: _Parents, classes: Iterable[str], root: str) -> dict[str, int]:
    """Return the length of the longest path to the root for every node that reaches it."""
    distance: dict[str, int] = {root: 0}
    finished: set[str] = {root}  # used only for membership tests
    for start in classes:
        stack = [start]
        while stack:
            node = stack[-1]
            if node in finished:
                stack.pop()
                continue
            waiting = [p for p in parents_of.get(node, ()) if p not in finished]
            if waiting:
                stack.extend(waiting)
                continue
            above = [distance[p] for p in parents_of.get(node, ()) if p in distance]
            if above:
                distance[node] = 1 + max(above)
            finished.add(stack.pop())
    return distance


def choose_parents(parents_of: _Parents, classes: Sequence[str], root: str) -> dict[str, str]:
    """Choose one parent for every node on the classes' paths, by the rule of section 2."""
    return _choose(parents_of, classes, root)[0]


def choose_all_parents(
    parents_of: _Parents, classes: Sequence[str], root: str
) -> tuple[dict[str, str], list[str]]:
    """Choose parents as :func:`choose_parents` does, and also for nodes that no path uses.

    Returns the parents, and the nodes that became leaves because all their children got other
    parents. The paths of the classes are the same as with :func:`choose_parents`.
    """
    fixed, longest, distance, use = _choose(parents_of, classes, root)
    met = {root, *(child for _, child in tree_edges(fixed, classes))}  # for membership tests
    stranded = []
    for node in sorted(distance, key=lambda node: -distance[node]):  # deepest first
        if node not in met:
            stranded.append(node)
            _fix_path(_best_longest_path(longest, distance, use, fixed, node), fixed)
            while node not in met:
                met.add(node)
                node = fixed[node]
    return fixed, stranded


def _choose(
    parents_of: _Parents, classes: Sequence[str], root: str
) -> tuple[dict[str, str], dict[str, list[str]], dict[str, int], dict[str, int]]:
    """Return the chosen parents, the longest paths' parents, the distances and the use counts."""
    distance = longest_distances(parents_of, classes, root)
    longest = {
        node: [p for p in parents_of.get(node, ()) if distance.get(p) == distance[node] - 1]
        for node in distance
    }
    use: dict[str, int] = dict.fromkeys(distance, 0)
    for leaf in classes:
        for node in ancestors_upwards(longest, leaf):
            use[node] += 1
    fixed: dict[str, str] = {}
    for leaf in classes:
        _fix_path(_best_longest_path(longest, distance, use, fixed, leaf), fixed)
    return fixed, longest, distance, use


def _best_longest_path(
    longest: _Parents,
    distance: Mapping[str, int],
    use: Mapping[str, int],
    fixed: Mapping[str, str],
    leaf: str,
) -> list[str]:
    """Return the best longest path of a class, from the class up to the root."""
    cost: dict[str, tuple[int, int]] = {}  # (contradictions, -use) from here up
    step: dict[str, str] = {}
    for node in sorted(ancestors_upwards(longest, leaf), key=distance.__getitem__):
        options = [
            (cost[p][0] + (fixed.get(node, p) != p), cost[p][1] - use[node], order, p)
            for order, p in enumerate(longest[node])
        ]
        if options:
            contradictions, usage, _, step[node] = min(options)
            cost[node] = contradictions, usage
        else:
            cost[node] = 0, -use[node]
    path = [leaf]
    while path[-1] in step:
        path.append(step[path[-1]])
    return path


def _fix_path(path: Sequence[str], fixed: dict[str, str]) -> None:
    """Fix the parents along a path, except where a node already has a fixed parent."""
    for node, parent in itertools.pairwise(path):
        fixed.setdefault(node, parent)


def tree_edges(fixed: Mapping[str, str], classes: Iterable[str]) -> list[tuple[str, str]]:
    """Return the (parent, child) edges reached by walking up from the classes."""
    edges: dict[str, str] = {}
    for node in classes:
        while node in fixed and node not in edges:
            edges[node] = fixed[node]
            node = fixed[node]
    return [(parent, child) for child, parent in edges.items()]


def all_paths(parents_of: _Parents, leaf: str, root: str, limit: int = 1000) -> list[list[str]]:
    """List the paths from a class up to the root, in pointer order, at most ``limit`` of them."""
    reaches = longest_distances(parents_of, [leaf], root)
    paths: list[list[str]] = []
    stack = [[leaf]]
    while stack and len(paths) < limit:
        path = stack.pop()
        if path[-1] == root:
            paths.append(path)
            continue
        stack.extend([*path, p] for p in reversed(parents_of.get(path[-1], ())) if p in reaches)
    return paths


def choose_parents_by_images(
    parents_of: _Parents,
    classes: Sequence[str],
    root: str,
    features: NDArray[np.floating],
    tree_of: Callable[[Mapping[str, str]], Taxonomy],
) -> dict[str, str]:
    """Choose the parents so that the tree agrees with the images (section 2, the other rule).

    Starts from the choice without images. Then, for each class in the given order, it tries all
    candidate paths. It keeps the path whose Wu-Palmer similarities to the other classes correlate
    best (Spearman) with the cosine similarities of the class-mean ``features`` [classes, dims].
    ``tree_of`` builds the tree of a choice of parents.
    """
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    cosine = unit @ unit.T
    start = choose_parents(parents_of, classes, root)
    fixed: dict[str, str] = {}
    for number, leaf in enumerate(classes):
        chosen = _walks_to(start, leaf)  # stays if there is no other candidate, or on a tie
        candidates = [p for p in all_paths(parents_of, leaf, root) if not _contradicts(p, fixed)]
        best = -np.inf
        for path in [chosen, *candidates] if len(candidates) > 1 else []:
            trial = {**start, **dict(itertools.pairwise(path))}
            score = _agreement(tree_of(trial), classes, number, cosine[number])
            if score > best + 1e-12:
                best, chosen = score, path
        _fix_path(chosen, fixed)
        start.update(fixed)
    return fixed


def _contradicts(path: Sequence[str], fixed: Mapping[str, str]) -> bool:
    return any(fixed.get(n, p) != p for n, p in itertools.pairwise(path))


def _walks_to(fixed: Mapping[str, str], leaf: str) -> list[str]:
    """Return the path from a class up to the root under a choice of parents."""
    path = [leaf]
    while path[-1] in fixed:
        path.append(fixed[path[-1]])
    return path


def _agreement(
    tree: Taxonomy, classes: Sequence[str], number: int, cosine: NDArray[np.floating]
) -> float:
    """Return how well a class's tree and image similarities to other classes correlate."""
    nodes = np.array([tree.index(leaf) for leaf in classes], dtype=np.int32)
    lca = tree.lca_depth(nodes[number], nodes)
    similarity = 2.0 * (lca + 1) / (tree.depth[nodes[number]] + tree.depth[nodes] + 2)
    others = np.arange(len(classes)) != number
    return spearman(similarity[others], cosine[others])


def spearman(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """Return Spearman's rank correlation, with mean ranks for ties; 0 if a side is constant."""
    ranks = []
    for side in (a, b):
        _values, inverse, counts = np.unique(side, return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        ranks.append((last - (counts - 1) / 2.0)[inverse])
    x, y = (rank - rank.mean() for rank in ranks)
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm > 0 else 0.0

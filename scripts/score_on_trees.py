"""Score the likeliest leaves of finished runs on other readings of the paper's class hierarchy.

    python scripts/score_on_trees.py STUDY docs/results/cifar100 RUN ...

The paper does not print its CIFAR-100 tree, so the question is how much HF hangs on it. Nothing is
trained: the leaves that a model predicts stay the same, only the tree they are scored on differs.
Needs the weights and the data. Writes `trees.json` into the published copy, the runs named beside
those it holds; `scripts/publish_study.py` makes the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from fedgrain.arithmetic import one_thread
from fedgrain.checked_json import read_checked_json
from fedgrain.config.config_texts import read_config
from fedgrain.errors import TaxonomyError
from fedgrain.files import write_text
from fedgrain.images.images import LabelledImages
from fedgrain.models.model_folder import load
from fedgrain.preparation.prepare import load_images
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.metrics import Nodes, hierarchical_scores
from fedgrain.scoring.rules import predict
from fedgrain.taxonomy import Taxonomy, class_list, coarsen, full_taxonomy, wordnet

Reading = tuple[Taxonomy, Sequence[str]]  # a tree, and the node of each class in it
ENTITY = "n00001740"


def readings(data: LabelledImages, max_children: int) -> dict[str, Reading]:
    """Return the trees to score on; every class keeps a node of its own but for name clashes."""
    wnids = class_list(data.name).wnids
    full = full_taxonomy(wnids)
    train = data.split_indices("train")
    of_class = [
        data.images[train[data.labels[train] == data.taxonomy.index(w)]].mean(0) for w in wnids
    ]
    by_images = full_taxonomy(wnids, features=np.stack(of_class).reshape(len(wnids), -1))
    senses = first_senses(data.name)
    return {
        "H_full": (full, wnids),
        "H": (coarsen(full, max_children).taxonomy, wnids),
        "H, textbook silhouette": (coarsen(full, max_children, "neutral").taxonomy, wnids),
        "H_full, paths by the images": (by_images, wnids),
        "first hypernyms": (tree_by(first, wnids), wnids),
        "shortest paths": (tree_by(shortest, wnids), wnids),
        "single children kept": (tree_by(longest, wnids, contract=False), wnids),
        "first senses of the names": (tree_by(longest, senses), senses),
        "first senses, first hypernyms": (tree_by(first, senses), senses),
        "first senses, shortest paths": (tree_by(shortest, senses), senses),
    }


def tree_by(
    choose: Callable[[str], str], classes: Sequence[str], *, contract: bool = True
) -> Taxonomy:
    """Build the tree in which every synset hangs from the hypernym that ``choose`` takes."""
    parent_of: dict[str, str] = {}
    for node in classes:
        while node != ENTITY and node not in parent_of:
            parent_of[node] = choose(node)
            node = parent_of[node]
    tree = Taxonomy.from_edges([(parent, child) for child, parent in parent_of.items()])
    if not contract:
        return tree
    wanted = np.isin(tree.ids, classes)
    kept = (tree.child_counts != 1) | wanted  # a class may lie above another in these trees
    kept[tree.root] = True
    top = tree.keep(kept)
    if top.child_counts[top.root] > 1:
        return top
    below = top.ids[top.children(top.root)[0]]  # the root itself had a single child
    edges = [
        (top.ids[top.parents[node]], top.ids[node])
        for node in range(1, len(top))
        if top.ids[node] != below
    ]
    return Taxonomy.from_edges(edges)


def first(node: str) -> str:
    """Return the first hypernym, in WordNet's pointer order."""
    return wordnet().hypernyms(node)[0]


def shortest(node: str) -> str:
    """Return the hypernym that is nearest to the top."""
    return min(wordnet().hypernyms(node), key=lambda above: height(above, min))


def longest(node: str) -> str:
    """Return the hypernym that is farthest from the top."""
    return max(wordnet().hypernyms(node), key=lambda above: height(above, max))


def height(node: str, pick: Callable[[list[int]], int]) -> int:
    """Return the number of hypernyms up to the top, on the way that ``pick`` takes."""
    return 0 if node == ENTITY else 1 + pick([height(a, pick) for a in wordnet().hypernyms(node)])


def first_senses(dataset: str) -> list[str]:
    """Return the first noun sense of every class's name; ours where the name is no noun."""
    listed = class_list(dataset)
    return [first_sense(listed.names[wnid]) or wnid for wnid in listed.wnids]


def first_sense(name: str) -> str | None:
    """Return the most frequent noun of this name."""
    try:
        return wordnet().senses(name)[0]
    except TaxonomyError:
        return None


def predicted(folder: Path, data: LabelledImages) -> tuple[Nodes, Nodes]:
    """Return the class of every test image and the class predicted for it, by number."""
    model, chosen = load(folder), data.split_indices("test")
    log_probs = model.node_log_probs(data.images[chosen]).double().numpy()
    leaves = predict(log_probs, model.taxonomy, "leaf", None, model.full_taxonomy)
    number = {wnid: n for n, wnid in enumerate(class_list(data.name).wnids)}
    truth = np.array([number[data.taxonomy.ids[node]] for node in data.labels[chosen]])
    return truth, np.array([number[model.taxonomy.ids[node]] for node in leaves])


def main() -> int:
    """Score the runs named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path, help="the study's folder, with weights")
    parser.add_argument("target", type=Path, help="its published copy")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="names of runs of it")
    args = parser.parse_args()
    path = args.target / "trees.json"
    known = read_checked_json(path) if path.exists() else {}
    config = read_config(RunFolder(args.study / "runs" / args.runs[0]).config).complete()
    data = load_images(config)
    trees = readings(data, config.max_children)
    with one_thread():
        for name in tqdm(args.runs, file=sys.stderr):
            truth, prediction = predicted(args.study / "runs" / name, data)
            known[name] = {}
            for reading, (tree, ids) in trees.items():
                nodes = np.array([tree.index(node) for node in ids])
                found = hierarchical_scores(nodes[truth], nodes[prediction], tree)
                means = {of: float(getattr(found, of).mean()) for of in ("hf", "hr", "hp")}
                known[name][reading] = {**means, "depth": int(tree.depth.max())}
            text = json.dumps(dict(sorted(known.items())), indent=2, ensure_ascii=False)
            write_text(path, f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

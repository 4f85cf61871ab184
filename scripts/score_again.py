"""Score the models of a study's finished runs by other rules and other ways to count depth.

    python scripts/score_again.py STUDY docs/results/cifar100

Needs the weights and the data. Writes `rescored.json` into the published copy: for each run the
mean test scores by each prediction rule, and of the likeliest leaf with depths counted on H.
Runs that are in it already are not scored again, unless they went on since; published runs whose
weights are not in the study's folder are counted and left as they are.
`scripts/publish_study.py` makes the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

from fedgrain.arithmetic import one_thread
from fedgrain.checked_json import read_checked_json
from fedgrain.config.config_texts import read_config
from fedgrain.files import write_text
from fedgrain.images.images import LabelledImages
from fedgrain.models.model_folder import load
from fedgrain.preparation.prepare import load_images
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.metrics import Nodes, Values, hierarchical_scores
from fedgrain.scoring.rules import predict
from fedgrain.taxonomy import Taxonomy


def scored(folder: Path, data: LabelledImages, trust: bool = False) -> dict[str, dict[str, float]]:
    """Return the mean scores of one run's model by each rule, and by other counts of depth."""
    model, chosen = load(folder, trust_code=trust), data.split_indices("test")
    tree, full = model.taxonomy, model.full_taxonomy
    log_probs = model.node_log_probs(data.images[chosen]).double().numpy()
    truth = data.taxonomy.numbers_in(full)[data.labels[chosen]]
    found = {
        rule: predict(log_probs, tree, rule, None, full)
        for rule in ("leaf", "majority", "expected-hf")
    }
    found["likeliest node"] = likeliest_node(log_probs, tree)
    to_full = tree.numbers_in(full)
    values = {rule: scores(truth, to_full[nodes], full) for rule, nodes in found.items()}
    coarse_truth = full.nearest_in(tree)[truth].astype(np.int64)
    values["leaf, on H"] = scores(coarse_truth, found["leaf"], tree)
    return values


def scores(truth: Nodes, prediction: Nodes, tree: Taxonomy) -> dict[str, float]:
    """Return mean HF, HR and HP, and how often the prediction is the truth."""
    found = hierarchical_scores(truth, prediction, tree)
    means = {name: float(getattr(found, name).mean()) for name in ("hf", "hr", "hp")}
    return {**means, "accuracy": float((truth == prediction).mean())}


def likeliest_node(log_probs: Values, tree: Taxonomy) -> Nodes:
    """Return the node with the most probability of its own: its P without its children's.

    The plain argmax of heads whose inner nodes are outputs beside the leaves.
    """
    own = np.exp(log_probs)
    for node in range(1, len(tree)):
        own[:, tree.parents[node]] -= np.exp(log_probs[:, node])
    return np.asarray(own.argmax(1), dtype=np.int64)


def main() -> int:
    """Score what is new."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path, help="the study's folder, with weights")
    parser.add_argument("target", type=Path, help="its published copy")
    parser.add_argument("--trust-code", action="store_true", help="run code that the runs name")
    args = parser.parse_args()
    path = args.target / "rescored.json"
    known = read_checked_json(path) if path.exists() else {}
    reached = {
        place.parent.name: read_checked_json(place)["hf"]
        for place in sorted((args.target / "runs").glob("*/result.json"))
        if "-client" not in place.parent.name
    }
    new = [n for n, hf in reached.items() if n not in known or known[n]["leaf"]["hf"] != hf]
    here = [name for name in new if RunFolder(args.study / "runs" / name).model.exists()]
    if missing := len(new) - len(here):
        print(f"{missing} published runs have no model in {args.study}", file=sys.stderr)
    data: dict[object, LabelledImages] = {}
    with one_thread():
        for name in tqdm(here, file=sys.stderr):
            folder = args.study / "runs" / name
            config = read_config(RunFolder(folder).config).complete()
            if config.zero_shot:
                continue
            if config.dataset not in data:
                data[config.dataset] = load_images(config)
            known[name] = scored(folder, data[config.dataset], args.trust_code)
            text = json.dumps(dict(sorted(known.items())), indent=2, ensure_ascii=False)
            write_text(path, f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

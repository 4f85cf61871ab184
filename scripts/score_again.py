"""Score the models of a study's finished runs by other rules and other ways to count depth.

    python scripts/score_again.py STUDY docs/results/cifar100

Needs the weights and the data. Writes `rescored.json` into the published copy: for each run the
mean test HF by each prediction rule, and of the likeliest leaf if depths were counted otherwise.
Runs that are in it already are not scored again. `scripts/publish_study.py` makes the table.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

from fedgrain.data.images import LabelledImages
from fedgrain.experiment.config import read_config
from fedgrain.experiment.folder import RunFolder, read_json, write_json
from fedgrain.experiment.prepare import load_images
from fedgrain.experiment.run import one_thread
from fedgrain.experiment.trained import load
from fedgrain.metrics import ancestor_table, hierarchical_scores, numbers_in
from fedgrain.predict import predict
from fedgrain.taxonomy import Taxonomy


def scored(folder: Path, data: LabelledImages) -> dict[str, float]:
    """Return mean test HF of one run's model by each rule, and by other counts of depth."""
    model, chosen = load(folder), data.split_indices("test")
    tree, full = model.taxonomy, model.full_taxonomy
    log_probs = model.node_log_probs(data.images[chosen])
    to_full = numbers_in(full, tree)
    truth = numbers_in(full, data.taxonomy)[data.labels[chosen]]
    found = {rule: predict(log_probs, tree, rule, None, full) for rule in ("leaf", "majority")}
    found["expected-hf"] = predict(log_probs, tree, "expected-hf", None, full)
    values = {
        rule: float(hierarchical_scores(truth, to_full[nodes], full).hf.mean())
        for rule, nodes in found.items()
    }
    hits = to_full[found["expected-hf"]] == truth
    values["expected-hf, leaf accuracy"] = float(hits.mean())
    coarse_truth = full.nearest_in(tree)[truth].astype(np.int64)
    on_coarse = hierarchical_scores(coarse_truth, found["leaf"], tree)
    values["leaf, on H"] = float(on_coarse.hf.mean())
    values["HR on H"], values["HP on H"] = float(on_coarse.hr.mean()), float(on_coarse.hp.mean())
    values["leaf, root depth 1"] = _root_counted(truth, to_full[found["leaf"]], full)
    return values


def _root_counted(truth: np.ndarray, prediction: np.ndarray, full: Taxonomy) -> float:
    """HF where the root is at depth 1: even a prediction that shares only the root scores."""
    table = ancestor_table(full)
    common = ((table[truth] >= 0) & (table[truth] == table[prediction])).sum(1)
    depths = full.depth[truth] + full.depth[prediction] + 2
    return float((2 * common / depths).mean())


def main() -> int:
    """Score what is new."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path, help="the study's folder, with weights")
    parser.add_argument("target", type=Path, help="its published copy")
    args = parser.parse_args()
    path = args.target / "rescored.json"
    known = read_json(path) if path.exists() else {}
    runs = sorted(place.parent.name for place in (args.target / "runs").glob("*/result.json"))
    new = [name for name in runs if name not in known and "-client" not in name]
    data: dict[object, LabelledImages] = {}
    with one_thread():
        for name in tqdm(new, file=sys.stderr):
            folder = args.study / "runs" / name
            config = read_config(RunFolder(folder).config).complete()
            if config.zero_shot:
                continue
            if config.dataset not in data:
                data[config.dataset] = load_images(config)
            known[name] = scored(folder, data[config.dataset])
            write_json(path, dict(sorted(known.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())

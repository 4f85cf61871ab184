"""A study whose runs were never run: their results are written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedgrain.studies.planned_runs import cell_runs
from fedgrain.studies.study import Study
from fedgrain.taxonomy import Taxonomy, to_json

TREE = Taxonomy.from_edges(
    [("thing", "animal"), ("animal", "bird"), ("bird", "kite"), ("bird", "owl"), ("thing", "oak")]
)
COARSE = Taxonomy.from_edges([("thing", "kite"), ("thing", "owl"), ("thing", "oak")])

# HF per seed; HR is 0.01 above and HP 0.02 below it
SCORES = {
    ("flat-softmax/paper", 0.0): [0.650, 0.652, 0.648],
    ("flat-softmax/paper", 0.9): [0.40, 0.41, 0.45],
    ("fedbdft/paper", 0.0): [0.64, 0.66, 0.65],
    ("fedbdft/paper", 0.9): [0.55, 0.56, 0.57],
    ("flat-softmax/projection", 0.0): [0.70, 0.70, 0.70],
    ("flat-softmax/projection", 0.9): [0.61, 0.66, 0.65],
    ("oracle:flat-softmax", 0.0): [0.650, 0.652, 0.648],  # the very runs of alpha 0
    ("oracle:flat-softmax", 0.9): [0.650, 0.652, 0.648],
}


def write_study(
    folder: Path,
    scores: Mapping[tuple[str, float], Sequence[float]] = SCORES,
    seeds: Sequence[int] = (47, 48, 49),
    dataset: str = "cifar100",
) -> Study:
    """Write study.toml and a result.json per run."""
    methods = tuple(dict.fromkeys(method for method, _ in scores))
    alphas = tuple(dict.fromkeys(alpha for _, alpha in scores))
    study = Study("by-hand", (dataset,), methods, alphas, tuple(seeds)).complete()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.toml").write_text(study.toml())
    for (method, alpha), values in scores.items():
        for seed, hf in zip(seeds, values, strict=True):
            for name in cell_runs(study, dataset, method, alpha, seed, {}):
                place = folder / "runs" / name
                place.mkdir(parents=True, exist_ok=True)
                result = {"hr": hf + 0.01, "hp": hf - 0.02, "hf": hf}
                result |= {"accuracy_per_depth": [hf + 0.1, hf - 0.1], "accuracy": hf - 0.3}
                result |= {"validation_hf": hf, "rounds": 3, "cycles": 0, "seconds": 1.5}
                result |= {"tested_on": "test", "untrained_branches": []}
                (place / "result.json").write_text(json.dumps(result))
                lines = [
                    {"stage": "fedavg", "round": round_number, "validation_hf": hf * share}
                    | {"clients": [], "faults": []}
                    for round_number, share in enumerate((0.5, 0.8, 1.0), start=1)
                ]
                text = "".join(json.dumps(line) + "\n" for line in lines)
                (place / "metrics.jsonl").write_text(text)
                trees = {"taxonomy": to_json(COARSE), "full_taxonomy": to_json(TREE)}
                (place / "model.json").write_text(json.dumps(trees))
    return study

"""Runs and studies to report on: one run is trained, a study's others are its likeness.

Names are as bad as users can make them: markup in the taxonomy and in the folder's name.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fedgrain import Config, run
from fedgrain.checked_json import read_checked_json
from fedgrain.data import LabelledImages
from fedgrain.studies.planned_runs import plan_runs
from fedgrain.studies.study import Study
from fedgrain.taxonomy import from_json, to_json
from own_parts import few_glyphs

SCRIPT = "<script>document.title='run'</script>"
BREAKS_OUT = "</script><img src=x onerror=document.title='run'>"
FOLDER = "run <script>"
SETTINGS: dict[str, Any] = {
    "net": "own_parts:SmallNet",
    "clients": 4,
    "max_children": 4,
    "batch": 16,
    "lr": 0.1,
    "rounds": 3,
    "cycles": 2,
}


@cache
def hostile_glyphs() -> LabelledImages:
    """Glyphs whose root and two of whose classes are named with markup."""
    data = few_glyphs()
    content = to_json(data.taxonomy)
    leaves = data.taxonomy.leaves
    for node, name in ((0, f"all & {SCRIPT}"), (leaves[0], SCRIPT), (leaves[1], BREAKS_OUT)):
        content["nodes"][int(node)]["name"] = name
    return replace(data, taxonomy=from_json(content))


def train_one(folder: Path) -> Path:
    """Train a run for real, in a moment."""
    config = Config(
        dataset="reported_runs:hostile_glyphs",
        head="flat-softmax",
        supervision="projection",
        alpha=0.5,
        **SETTINGS,
    )
    run(config, folder)
    return folder


def write_study(
    folder: Path, trained: Path, methods: int = 2, alphas: int = 2, seeds: int = 3, rounds: int = 3
) -> Study:
    """Write a study whose runs are like the trained one with other scores; the best is it."""
    names = ("flat-softmax/projection", "flat-softmax/paper", "cond-softmax/paper",
             "softmax-margin/paper", "ps-softmax/projection")  # fmt: skip
    levels = tuple(np.linspace(0, 0.5, alphas).round(2).tolist())
    study = Study(
        f"study {SCRIPT}",
        ("reported_runs:hostile_glyphs",),
        names[:methods],
        levels,
        tuple(range(47, 47 + seeds)),
        settings=SETTINGS,
    ).complete()
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(study.toml(), "utf-8")
    result = read_checked_json(trained / "result.json")
    line = json.loads((trained / "metrics.jsonl").read_text().splitlines()[0])
    for planned in plan_runs(study, {}):
        place, config = folder / "runs" / planned.name, planned.config
        place.mkdir(parents=True)
        (place / "config.toml").write_text(config.toml(), "utf-8")
        surroundings = read_checked_json(trained / "environment.json")
        surroundings.pop("config_sha256")  # the config is another
        (place / "environment.json").write_text(json.dumps(surroundings))
        method = names.index(f"{config.head}/{config.supervision}")
        hf = 0.8 - 0.05 * method - 0.2 * config.alpha * (1 + method) + 0.003 * (config.seed % 5)
        scores = {"hf": hf, "hr": hf + 0.01, "hp": hf - 0.01, "seed": config.seed}
        (place / "result.json").write_text(json.dumps({**result, **scores}))
        lines = [{**line, "validation_hf": hf * (1 - 0.5**r)} for r in range(1, rounds + 1)]
        (place / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
        if method == 0:
            for name in ("model.json", "best.safetensors"):
                shutil.copy(trained / name, place)
    return study

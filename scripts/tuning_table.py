"""The settings of each method, chosen by validation HF: the table of a study of settings.

    python scripts/tuning_table.py studies/glyphs-tuning --kept docs/results/glyphs-tuning.json
    python scripts/tuning_table.py --kept docs/results/glyphs-tuning.json

A row per method, a column per learning rate and momentum of the server; mean validation HF over
seeds, the chosen one bold. The scores of a study are added to the kept ones.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from statistics import fmean

from fedgrain.checked_json import read_checked_json
from fedgrain.files import write_text
from fedgrain.tables.collect import read_results, run_folders
from published.markdown_table import markdown

TUNED = ("lr", "server_momentum")
IMPLIED = "server_optimizer=sgd"  # goes with momentum
Scores = dict[str, dict[str, dict[str, float]]]  # method, settings, seed: validation HF


def parted(method: str) -> tuple[str, str]:
    """Return a method without its tuned settings, and these.

    >>> parted("flat-softmax/paper+proximal=0.01+lr=0.1+server_optimizer=sgd+server_momentum=0.5")
    ('flat-softmax/paper+proximal=0.01', 'lr 0.1, server momentum 0.5')
    """
    base, *settings = method.split("+")
    pairs = [setting.partition("=")[::2] for setting in settings if setting != IMPLIED]
    tuned = [f"{name} {value}".replace("_", " ") for name, value in pairs if name in TUNED]
    kept = [f"{name}={value}" for name, value in pairs if name not in TUNED]
    return "+".join([base, *kept]), ", ".join(tuned)


def scores(folder: Path) -> Scores:
    """Return validation HF of the finished runs of a study."""
    study, found = read_results(folder).study, Scores()
    (dataset,), (alpha,) = study.datasets, study.alphas
    for method, seed in product(study.methods, study.seeds):
        name, settings = parted(method)
        for run in run_folders(folder, study, dataset, method, alpha, seed):
            if run.result.exists():
                value = read_checked_json(run.result)["validation_hf"]
                found.setdefault(name, {}).setdefault(settings, {})[str(seed)] = value
    return found


def table(found: Scores) -> str:
    """Return mean validation HF as Markdown; a failed or missing run leaves its cell empty."""
    columns = sorted({settings for row in found.values() for settings in row})
    wanted = max(len(seeds) for row in found.values() for seeds in row.values())
    lines = []
    for method, row in found.items():
        means = {s: fmean(seeds.values()) for s, seeds in row.items() if len(seeds) == wanted}
        best = max(means, key=means.__getitem__, default=None)
        shown = {s: f"**{mean:.3f}**" if s == best else f"{mean:.3f}" for s, mean in means.items()}
        lines.append([method, *(shown.get(settings, "") for settings in columns)])
    return markdown(["method", *columns], lines)


def main() -> None:
    """Add what a study has, and print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path, nargs="?", help="the study's folder")
    parser.add_argument("--kept", type=Path, required=True, help="the file of kept scores")
    args = parser.parse_args()
    found: Scores = json.loads(args.kept.read_text("utf-8")) if args.kept.exists() else {}
    if args.study is not None:
        for method, row in scores(args.study).items():
            for settings, seeds in row.items():
                found.setdefault(method, {}).setdefault(settings, {}).update(seeds)
        write_text(args.kept, json.dumps(found, indent=1) + "\n")
    print(table(found), end="")


if __name__ == "__main__":
    main()

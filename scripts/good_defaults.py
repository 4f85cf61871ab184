"""Compare a run with no flag but the data with many choices of flags, on images of four sites.

The sites label by the projection rule, or lazily: half of their leaf labels are written as the
parent. Test images are labelled in full. One line per run; the same command goes on where it was.

    PYTHONPATH=tests python scripts/good_defaults.py OUT [--seeds 47 48] [--rates 0.1] [--rounds 9]
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import fedgrain
from fedgrain import Config
from projected_site import projected_site  # tests/

HEADS = ("flat-softmax", "ps-softmax", "cond-softmax")
SUPERVISIONS = ("marginal", "projection", "learned")


def choices(rates: Sequence[float]) -> dict[str, dict[str, Any]]:
    """Return the flags of every run by name; the defaults first."""
    found: dict[str, dict[str, Any]] = {
        "no flags": {},
        "server momentum 0.5": {"server_optimizer": "sgd", "server_momentum": 0.5},
        "patience 10, last round": {"patience": 10, "average_rounds": 1},
        "projection, once a round": {"supervision": "projection", "responsibilities": "round"},
        "marginal, once a round": {"supervision": "marginal", "responsibilities": "round"},
    }
    for head, supervision, rate in product(HEADS, SUPERVISIONS, rates):
        name = f"{head}/{supervision}, lr {rate:g}"
        found[name] = {"head": head, "supervision": supervision, "lr": rate}
        found[name]["responsibilities"] = "step"  # learned shares out once a round in any case
    return found


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[47])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.05, 0.1])
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    stored = args.out / "scores.json"
    asked = choices(args.rates)
    scores = json.loads(stored.read_text()) if stored.exists() else {}
    for lazy, seed in product((0.0, 0.5), args.seeds):
        place = args.out / f"sites-{lazy:g}-{seed}"
        if not place.exists():
            projected_site(place, lazy=lazy, seed=seed, test=4200)
        for name, flags in asked.items():
            key = f"{lazy:g}|{seed}|{name}"
            if key in scores:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # labels that contradict what was inferred
                given = Config(
                    dataset="folder", data_root=str(place), seed=seed, rounds=args.rounds, **flags
                )
                scores[key] = fedgrain.run(given, workers=1).hf
            stored.write_text(json.dumps(scores, indent=1))
    for lazy in (0.0, 0.5):
        print(f"lazy {lazy:g}: test HF, mean over seeds {', '.join(map(str, args.seeds))}")
        means = {n: fmean(scores[f"{lazy:g}|{s}|{n}"] for s in args.seeds) for n in asked}
        for name, mean in sorted(means.items(), key=lambda item: -item[1]):
            print(f"  {mean:.3f}  {name}")


if __name__ == "__main__":
    main()

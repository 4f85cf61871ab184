"""Does `projection` beat the paper's supervision on the embedded data set? Prints means over seeds.

On glyphs, alpha 0.9, seeds 47 to 49: projection must beat paper by more than 0.02 test HF for
cond-softmax and for flat-softmax; at alpha 0 the two heads must differ by less than 0.05. Takes
less than three minutes on two idle cores; exits with 1 if a claim does not hold.

    python scripts/glyphs_check.py
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import mean

import fedgrain

SEEDS = (47, 48, 49)
CASES = (  # the longest first: two processes then end at about the same time
    (0.0, "cond-softmax", "paper"),
    (0.0, "flat-softmax", "paper"),
    (0.9, "cond-softmax", "projection"),
    (0.9, "flat-softmax", "projection"),
    (0.9, "cond-softmax", "paper"),
    (0.9, "flat-softmax", "paper"),
)
Case = tuple[float, str, str]


def test_hf(job: tuple[Case, int, int]) -> float:
    """Train and test one run."""
    (alpha, head, supervision), seed, rounds = job
    config = fedgrain.Config(
        alpha=alpha, head=head, supervision=supervision, seed=seed, rounds=rounds
    )
    hf = fedgrain.run(config).hf
    assert hf is not None  # glyphs have test images
    return hf


def main() -> int:
    """Run all cases and print them with what they must show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8, help="rounds of a run (default: 8)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    args = parser.parse_args()
    began = time.perf_counter()
    jobs = [(case, seed, args.rounds) for case in CASES for seed in SEEDS]
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        scores = dict(zip(((job[0], job[1]) for job in jobs), pool.map(test_hf, jobs), strict=True))
    means = {case: mean(scores[case, seed] for seed in SEEDS) for case in CASES}
    for case in sorted(CASES):
        seeds = "  ".join(f"{scores[case, seed]:.4f}" for seed in SEEDS)
        print(f"alpha {case[0]}  {case[1]:12}  {case[2]:10}  HF {means[case]:.4f}  ({seeds})")
    holds = True
    for head in ("cond-softmax", "flat-softmax"):
        gain = means[0.9, head, "projection"] - means[0.9, head, "paper"]
        holds &= gain > 0.02
        print(f"{head}: projection beats paper by {gain:.4f} (must be above 0.02)")
    apart = abs(means[0.0, "cond-softmax", "paper"] - means[0.0, "flat-softmax", "paper"])
    holds &= apart < 0.05
    print(f"without skew the two heads differ by {apart:.4f} (must be below 0.05)")
    print(f"{time.perf_counter() - began:.0f} seconds")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())

"""Attack fedgrain and print how it went: ``make attack``, or ``python -m attacks`` in tests/.

    python -m attacks [--seconds 600] [--seed 1] [--jobs 2] [ATTACK ...]

The seed decides every mutation, every flipped bit and the order of the cases; the seconds decide
how many of them are tried, and ``--seconds 60`` is a sample. The exit code is 1 if a result was
wrong or a traceback showed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attacks import flips, hostile, imports, inputs, kills, sites
from attacks.harness import Case
from attacks.workers import Tally, run_cases, table
from attacks.world import World, build

ATTACKS: dict[str, tuple[float, Callable[[World, int], list[Case]]]] = {  # share of the time
    "kills at file events": (0.4, lambda world, _: kills.cases(world)),
    "damaged files": (0.25, flips.cases),
    "mutated inputs": (0.15, inputs.cases),
    "mutated imports": (0.1, imports.cases),
    "malicious sites": (0.1, sites.cases),
    "hostile archives, images, models": (0.1, hostile.cases),
}
WITHOUT_WORLD = ("mutated imports",)  # they bring their own files


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attacks that are asked for."""
    parser = argparse.ArgumentParser(prog="attacks", description=__doc__.split("\n")[0])
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    parser.add_argument("--seconds", type=float, default=600, help="for all of them (600)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args(arguments)
    chosen = [name for name in ATTACKS if _asked(name, args.attacks)]
    if not chosen:
        parser.error(f"there is no attack {' or '.join(args.attacks)}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fedgrain-attack-") as folder:
        tallies = attack(Path(folder), chosen, args.seconds, seed=args.seed, jobs=args.jobs)
    for tally in tallies:
        for note in tally.notes:
            print(f"{tally.attack}: {note}", file=sys.stderr)
    print(table(tallies))
    print(f"seed {args.seed}, {args.jobs} processes, {time.monotonic() - began:.0f} seconds")
    return int(any(tally.wrong or tally.tracebacks or not tally.tries for tally in tallies))


def attack(
    folder: Path, names: Sequence[str], seconds: float, *, seed: int, jobs: int
) -> list[Tally]:
    """Build the world and attack it; time that one attack leaves goes to the next.

    The time is that of the cases: making what they damage comes on top.
    """
    world = World(folder / "world")
    if any(name not in WITHOUT_WORLD for name in names):
        world = build(folder / "world")
    tallies = []
    for number, name in enumerate(names):
        share, make = ATTACKS[name]
        cases = make(world, seed)
        print(f"{name}: {len(cases)} cases", file=sys.stderr, flush=True)
        began = time.monotonic()
        own = seconds * share / sum(ATTACKS[other][0] for other in names[number:])
        tallies.append(run_cases(name, cases, folder / "scratch", own, seed=seed, jobs=jobs))
        seconds -= time.monotonic() - began
    return tallies


def _asked(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(word in name for word in wanted)


if __name__ == "__main__":
    import fedgrain  # noqa: F401 - before torch: it settles the arithmetic
    import torch  # isort: skip

    torch.set_num_threads(1)
    sys.exit(main())

"""Show that portable arithmetic has the same bits on CPUs this machine does not have.

QEMU emulates them instruction by instruction (Debian: apt-get install qemu-user; it has AVX2 since
7.2, and no AVX-512). Each part of tests/portable_bits.py runs in a process of its own: QEMU may
crash in one.

    python scripts/other_cpus.py [--cpus Haswell-noTSX EPYC-Rome] [--parts flat-softmax numpy]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PROBE = Path(__file__).resolve().parents[1] / "tests" / "portable_bits.py"
PARTS = ("numpy", "last batch", "flat-softmax", "ps-softmax", "cond-sigmoid", "cond-softmax")
PARTS += ("softmax-descendant", "softmax-margin", "squeezenet")
LIMIT = 600.0  # seconds for one part


def bits(part: str, emulator: list[str]) -> str:
    """Return the digest of a part, or how its process ended."""
    command = [*emulator, sys.executable, str(PROBE), part]
    environment = {**os.environ, "FEDGRAIN_ARITHMETIC": "portable", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return f"no end in {LIMIT:.0f} s"
    if done.returncode:
        return f"ended with {done.returncode}: {done.stderr.strip().splitlines()[-1]}"
    return str(json.loads(done.stdout)["bits"][part])


def main() -> None:
    """Compare, print a line for each part and CPU, and end with 1 if bits differ."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cpus", nargs="+", default=["Haswell-noTSX", "EPYC-Rome"])
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    arguments = parser.parse_args()
    qemu = shutil.which("qemu-x86_64")
    if qemu is None:
        parser.error("there is no qemu-x86_64; on Debian: apt-get install qemu-user")
    different = 0
    for part in arguments.parts:
        here = bits(part, [])
        for cpu in arguments.cpus:
            there = bits(part, [qemu, "-cpu", cpu])
            digest = len(there) == len(here) and " " not in there
            verdict = "equal" if there == here else "DIFFERENT" if digest else "not shown"
            different += verdict == "DIFFERENT"
            print(f"{part:20} {cpu:16} {verdict}: {here} here, {there}", flush=True)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()

"""Seconds and peak memory of every command on a tree of 16,344 nodes and 10,000 leaves.

The tree is random and of the shape of iNaturalist's (tests/large_trees.py): 7 levels, many classes
with a single child. Each command runs in a process of its own, as a user starts it. Linux only.

    python benchmarks/trees.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from large_trees import SIZES, large_tree, write_site

QUICK_SIZES = (3, 13, 51, 273, 700, 1_500)
COMMAND = """
import sys
from fedgrain.cli import main
code = main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(peak.split()[1], file=sys.stderr)
sys.exit(code)
"""


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the arguments of every command, in an order in which they can run."""
    site, run = folder / "site", folder / "run"
    tree = ["--csv", str(site / "taxonomy.csv")]
    own = ["--dataset", "folder", "--data-root", str(site), "--image-size", "32"]
    inferred = ["--partition", "manifest", "--knowledge", "inferred", "--min-count", "1"]
    images = [str(path) for path in sorted((site / "images").glob("*.png"))[:8]]
    known = ["knowledge", *tree, "--alpha", "0.9"]
    return {
        "taxonomy": ["taxonomy", *tree, "--max-children", "32"],
        "taxonomy --out": ["taxonomy", *tree, "--out", str(folder / "trees")],
        "knowledge": known,
        "knowledge --expertise coherent": [*known, "--expertise", "coherent"],
        "knowledge --out --trees 1": [*known, "--out", str(folder / "knowledge"), "--trees", "1"],
        "data show": ["data", "show", "--dataset", "folder", "--root", str(site)],
        "run (one round)": ["run", *own, *inferred, "--rounds", "1", "--out", str(run)],
        "predict": ["predict", str(run), *images],
        "predict --confidence 0.5": ["predict", str(run), *images, "--confidence", "0.5"],
        "predict --expected-hf": ["predict", str(run), *images, "--expected-hf"],
        "report": ["report", str(run)],
    }


def measured(arguments: list[str]) -> dict[str, float]:
    """Run a command; return how long it took, by the clock and of a CPU, and its peak memory."""
    start, used = time.perf_counter(), _children_seconds()
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"fedgrain {' '.join(arguments)} failed:\n{done.stderr}")
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(_children_seconds() - used, 2),
        "gigabytes": int(done.stderr.split()[-1]) / 2**20,
    }


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Make the tree and the images, and run every command once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tree of 1,500 leaves")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    tree = large_tree(sizes=QUICK_SIZES if args.quick else SIZES)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_site(tree, Path(folder) / "site")
        for name, arguments in commands(Path(folder)).items():
            found[name] = measured(arguments)
            row = "{seconds:8.1f} s {gigabytes:6.2f} GB".format(**found[name])
            print(f"{name:<34}{row}", file=sys.stderr if args.json else sys.stdout, flush=True)
    if args.json:
        print(json.dumps({"nodes": len(tree), "leaves": len(tree.leaves), "commands": found}))


if __name__ == "__main__":
    main()

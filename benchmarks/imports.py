"""A table of 10,000 species in 16,344 classes, with holes: read, coarsened and drawn.

Every species has a full row and one in which a third of the cells above it are empty; every genus
and family has a row that stops there, with holes as well. All holes can be filled from other rows,
so the tree must be the one that the table was made from. Each command runs in a process of its own,
and the memory is its peak. Linux only.

    python benchmarks/imports.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path

from trees import QUICK_SIZES, measured

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np

from fedgrain.taxonomy import Taxonomy, read_csv
from large_trees import RANKS, SIZES, large_tree

HOLES = 1 / 3  # of the cells above a label


def write_table(tree: Taxonomy, path: Path, seed: int = 0) -> int:
    """Write the table and return how many cells are empty that should not be."""
    generator = np.random.default_rng(seed)
    holes = 0
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(RANKS)
        for node in range(1, len(tree)):
            cells = [tree.names[above] for above in tree.path(node)[1:].tolist()]
            rest = [""] * (len(RANKS) - len(cells))
            if tree.is_leaf(node):
                writer.writerow([*cells, *rest])
            if len(cells) > 4:
                punched = generator.random(len(cells) - 1) < HOLES
                holes += int(punched.sum())
                kept = ["" if hole else cell for cell, hole in zip(cells, punched, strict=False)]
                writer.writerow([*kept, cells[-1], *rest])
    return holes


def main() -> None:
    """Write the table, import it, coarsen and draw the tree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1,500 species")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    tree = large_tree(sizes=QUICK_SIZES if args.quick else SIZES)
    with tempfile.TemporaryDirectory() as folder:
        table, data, trees = (Path(folder) / name for name in ("t.csv", "data", "trees"))
        holes = write_table(tree, table)
        rows = len(table.read_text().splitlines()) - 1
        written = ["--csv", str(data / "taxonomy.csv")]
        found = {
            "read": measured(["import", "table", str(table), "--root", "life", "--out", str(data)]),
            "coarsened": measured(["taxonomy", *written, "--max-children", "32"]),
            "coarsened and drawn": measured(["taxonomy", *written, "--out", str(trees)]),
        }
        same = read_csv(data / "taxonomy.csv") == tree
    facts = {"nodes": len(tree), "species": len(tree.leaves), "rows": rows, "holes": holes,
             "same_tree": same}  # fmt: skip
    if args.json:
        print(json.dumps({**facts, "commands": found}))
        return
    print(f"{rows:,} rows of {len(tree.leaves):,} species in {len(tree):,} classes, "
          f"{holes:,} empty cells above a label; the same tree: {str(same).lower()}")  # fmt: skip
    for name, row in found.items():
        told = "{seconds:8.1f} s {cpu_seconds:6.1f} s of a CPU {gigabytes:6.2f} GB".format(**row)
        print(f"{name:<20}{told}")


if __name__ == "__main__":
    main()

"""How many coarse labels become leaves, and how many of those are right, on a finished run.

The run must be a simulation, such as one of docs/results/cifar100-trunk.toml: only there the truth
is known. The labels its clients wrote are refined as fedgrain refine does, by the model calibrated
on its validation images as a run does it, and compared with the truth.

    python scripts/refine_precision.py RUN... [--accept 0.8 0.9 0.95 0.99]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import fedgrain as _fedgrain  # noqa: F401  # isort: skip - it settles the arithmetic before torch
import numpy as np

from fedgrain.arithmetic import one_thread
from fedgrain.errors import RunError
from fedgrain.knowledge import project_known
from fedgrain.models.model_folder import load
from fedgrain.models.trained_model import TrainedModel
from fedgrain.preparation.prepare import Prepared, prepare
from fedgrain.refinement.proposals import propose
from fedgrain.runs.calibrate import on_validation
from fedgrain.runs.run_folder import RunFolder

READINGS = ("marginal", "projection")


def leaf_tables(model: TrainedModel, prepared: Prepared) -> list[np.ndarray]:
    """Return log P of the leaves for the training images of every client, calibrated."""
    federation = prepared.federation
    calibration = on_validation(federation)(model)  # older runs have none of their own
    if calibration is None:
        raise RunError("the run has no validation images to calibrate on")
    calibrated, leaves = replace(model, calibration=calibration), model.taxonomy.leaves
    return [
        np.concatenate(
            [
                block.numpy()[:, leaves]
                for block in calibrated.log_prob_blocks(federation.source, client.train.indices)
            ]
        )
        for client in federation.clients
    ]


def counted(
    prepared: Prepared, tables: list[np.ndarray], reading: str, accept: float
) -> tuple[int, int, int]:
    """Return how many labels are coarse, become leaves, and become the right leaf."""
    tree, data = prepared.federation.taxonomy, prepared.data
    truth = data.taxonomy.nearest_in(tree)[data.labels].astype(np.int64)
    first, end = tree.leaf_ranges
    coarse = leaves = right = 0
    for client, table in zip(prepared.federation.clients, tables, strict=True):
        labels = client.train.labels
        written = project_known(tree, client.known).labels[0]
        for label in np.unique(labels[tree.child_counts[labels] > 0]).tolist():
            rows = np.flatnonzero(labels == label)
            below = slice(int(first[label]), int(end[label]))
            named = written[below] == label if reading == "projection" else True
            weights = np.ones(below.stop - below.start) * named
            found = propose(tree, label, weights, table[rows, below], accept)
            made = found.taken & tree.is_leaf(found.nodes)
            coarse += len(rows)
            leaves += int(made.sum())
            right += int((made & (found.nodes == truth[client.train.indices[rows]])).sum())
    return coarse, leaves, right


def main() -> None:
    """Read the command line and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--accept", type=float, nargs="+", default=[0.8, 0.9, 0.95, 0.99])
    args = parser.parse_args()
    for run in args.runs:
        print(f"\n{run.name}\nreading     accept  coarse  to leaves  share  right")
        with one_thread():
            prepared = prepare(RunFolder(run).read_config())
            tables = leaf_tables(load(run), prepared)
            for reading in READINGS:
                for accept in args.accept:
                    coarse, leaves, right = counted(prepared, tables, reading, accept)
                    print(
                        f"{reading:<11} {accept:>6.2f}  {coarse:>6}  {leaves:>9}  "
                        f"{leaves / coarse:>5.1%}  {right / max(leaves, 1):>5.1%}"
                    )


if __name__ == "__main__":
    main()

"""What the peers' scripts share; runs in their environments: there is torch, and no fedgrain.

A peer reads lines from its standard input and answers each "go" with one line of JSON on its
standard output: the seconds one round took.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

FOLDER = Path(os.environ["FEDGRAIN_BENCH_FOLDER"])
POOL_FIRST = os.environ.get("FEDGRAIN_BENCH_POOL_FIRST") == "1"
THREADS = int(os.environ.get("FEDGRAIN_BENCH_THREADS", "1"))
BATCH, LR, JOINING = 32, 0.05, 5


class Net(nn.Module):
    """cnn-32 as an ordinary user writes it: convolution, ReLU, pool."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 5)
        self.conv2 = nn.Conv2d(32, 64, 5)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(1600, 100)

    def forward(self, images: Tensor) -> Tensor:
        """Images [batch, 3, 32, 32] to logits [batch, 100]."""
        if POOL_FIRST:  # the same function, and faster
            hidden = functional.relu(self.pool(self.conv1(images)))
            hidden = functional.relu(self.pool(self.conv2(hidden)))
        else:
            hidden = self.pool(functional.relu(self.conv1(images)))
            hidden = self.pool(functional.relu(self.conv2(hidden)))
        return self.fc(hidden.flatten(1))


def client_count() -> int:
    """Return how many clients there are."""
    return len(np.load(FOLDER / "parts.npy", mmap_mode="r"))


@cache
def client_data(client: int) -> tuple[Tensor, Tensor]:
    """Return a client's normalised images [samples, 3, 32, 32] and classes, read once a process."""
    part = np.load(FOLDER / "parts.npy", mmap_mode="r")[client]
    images = np.load(FOLDER / "images.npy", mmap_mode="r")[part]
    classes = np.load(FOLDER / "targets.npy", mmap_mode="r")[part]
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(classes)


class Answers:
    """The conversation; whatever else is printed goes to standard error."""

    def __init__(self) -> None:
        self._out: TextIO = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, **values: Any) -> None:
        """Answer with one line."""
        print(json.dumps(values), file=self._out, flush=True)

    def wait_for_go(self) -> bool:
        """Whether another round is wanted; the end of the input is a no."""
        return sys.stdin.readline().strip() == "go"

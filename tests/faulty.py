"""A tiny federation with a bad client of every kind, for tests of the engine.

The images of a bad client are of one even colour, which says how it is bad; the net, which runs
where clients train, misbehaves on such images. Nothing of fedgrain is replaced. Only the kinds
named in the environment variable FAULTS are active; DIE_ONCE names a file that says that the client
that dies has done so.
"""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fedgrain.data import LabelledImages
from fedgrain.taxonomy import Taxonomy

EDGES = [("r", "a"), ("r", "b"), ("r", "c")] + [(p, f"{p}{i}") for p in "abc" for i in range(5)]
GOOD = ("good 0", "good 1", "good 2")
BAD = ("raise", "hang", "die", "exit", "nan", "huge", "shape", "names", "kill engine")
CLIENTS = GOOD + BAD
FIRST_COLOUR = 160  # bad client k has images of the colour 160 + 10 k


def images(per_client: int = 36) -> LabelledImages:
    """Patterns of 16 x 16 pixels: the leaf decides brightness and stripes; the rest is noise."""
    taxonomy = Taxonomy.from_edges(EDGES)
    count = per_client * len(CLIENTS)
    rng = np.random.default_rng(5)
    leaf = np.arange(count + 60) % len(taxonomy.leaves)
    pixels = rng.integers(0, 60, size=(count + 60, 16, 16, 3))
    pixels += (leaf // 5 * 50)[:, None, None, None]
    stripes = (np.arange(16)[None, :] // (1 + leaf % 5)[:, None]) % 2  # [images, rows]
    pixels += stripes[:, :, None, None] * 60
    clients = np.concatenate([np.arange(count) % len(CLIENTS), np.full(60, -1)])
    drawn = np.minimum(pixels, 240).astype(np.uint8)
    for number in range(len(BAD)):
        drawn[clients == len(GOOD) + number] = FIRST_COLOUR + 10 * number
    splits = np.zeros(count + 60, np.int8)
    splits[count : count + 30] = 1
    splits[count + 30 :] = 2
    return LabelledImages(
        name="faulty",
        images=drawn,
        labels=taxonomy.leaves[leaf].astype(np.int32),
        taxonomy=taxonomy,
        splits=splits,
        split_names=("train", "validation", "test"),
        clients=clients.astype(np.int32),
        client_names=CLIENTS,
    )


def good_images() -> LabelledImages:
    """The same without the bad clients: three good ones, who validate themselves."""
    whole = images()
    return _of_good(whole, whole.clients)


def uneven_images() -> LabelledImages:
    """Three good clients, of which the first has about a hundred times the images of the others."""
    whole = images(per_client=300)
    given = np.flatnonzero((whole.clients >= 0) & (whole.clients < len(GOOD)))
    clients = np.where(whole.clients < 0, -1, len(GOOD))
    clients[given], clients[given[:9]], clients[given[9:18]] = 0, 1, 2
    return _of_good(whole, clients)


def _of_good(whole: LabelledImages, clients: np.ndarray) -> LabelledImages:
    validation = whole.splits == 1
    clients = np.where(validation, np.arange(len(clients)) % len(GOOD), clients)
    kept = clients < len(GOOD)
    return replace(
        whole,
        images=whole.images[kept],
        labels=whole.labels[kept],
        splits=whole.splits[kept],
        clients=clients[kept].astype(np.int32),
        client_names=GOOD,
    )


class Net(nn.Module):
    """A small net that fails on the images of bad clients, in training only."""

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(128, num_outputs)
        self.fault = ""
        self._register_state_dict_hook(_cut)

    def forward(self, batch: Tensor) -> Tensor:
        self.fault = fault_of(batch) if self.training else ""
        logits: Tensor = self.head(self.features(batch))
        return misbehave(self.fault, logits)


class Broken(Net):
    """A net with a mistake in its code: no client can train it."""

    def forward(self, batch: Tensor) -> Tensor:
        logits: Tensor = super().forward(batch)
        return logits + None if self.training else logits  # type: ignore[operator]


def fault_of(batch: Tensor) -> str:
    """Read how a client is bad off the colour of its images."""
    if float(batch.max() - batch.min()) > 1e-3:
        return ""
    colour = (float(batch.mean()) * 0.25 + 0.5) * 255
    fault = BAD[round((colour - FIRST_COLOUR) / 10)]
    return fault if fault in os.environ.get("FAULTS", "").split(",") else ""


def _cut(net: Net, state: dict[str, Tensor], prefix: str, metadata: object) -> None:
    if net.fault == "shape":
        state["head.bias"] = state["head.bias"][:1]
    if net.fault == "names":
        del state["head.bias"]


def misbehave(fault: str, logits: Tensor) -> Tensor:
    """Be bad in the given way."""
    if fault == "raise":
        raise RuntimeError("the camera is broken")
    if fault in ("hang", "kill engine"):
        if fault == "kill engine":
            os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    if fault == "die":
        once = os.environ.get("DIE_ONCE")
        if once and Path(once).exists():
            return logits
        if once:
            Path(once).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exit":
        os._exit(3)
    if fault == "nan":
        return logits * torch.nan
    if fault == "huge":
        return logits * 1e6
    return logits

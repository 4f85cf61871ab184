"""What a run of the protocol uses, made afresh, against what the protocol froze."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedgrain.benchmark.protocol import Protocol, Track, knowledge_file, split_file
from fedgrain.config.config import Config
from fedgrain.data import LabelledImages
from fedgrain.errors import BenchmarkError
from fedgrain.preparation.client_knowledge import client_knowledge
from fedgrain.preparation.prepare import Prepared, prepare

_LINE = 100  # images in a line of a split
_BLOCK = 4096  # images hashed at once


@dataclass(frozen=True, eq=False)
class Frozen:
    """The data, the split and the knowledge of one cell, as they come out here."""

    prepared: Prepared
    data_sha256: str
    split: str
    knowledge: str


def frozen(track: Track, alpha: float, seed: int) -> Frozen:
    """Make data, split and knowledge of one alpha and seed; without a net."""
    config = Config(
        dataset=track.dataset, alpha=alpha, seed=seed, head="flat-softmax", **track.federation
    ).complete()
    prepared = prepare(config)
    clients = prepared.federation.clients
    knowledge = client_knowledge(config, prepared.data, [c.train.indices for c in clients])
    with tempfile.TemporaryDirectory() as folder:
        knowledge.save(Path(folder) / "knowledge.json")
        text = (Path(folder) / "knowledge.json").read_text("utf-8")
    return Frozen(prepared, content_sha256(prepared.data), split_text(prepared), text)


def check_frozen(protocol: Protocol, track: Track) -> dict[int, Prepared]:
    """Refuse a track whose data, splits or knowledge are not the protocol's; by seed."""
    found = {}
    for seed in track.seeds:
        for alpha in track.alphas:
            here = frozen(track, alpha, seed)
            if here.data_sha256 != protocol.data[track.dataset]["sha256"]:
                raise BenchmarkError(
                    f"the images or labels of {track.dataset} are not those of benchmark "
                    f"{protocol.version}: their SHA-256 is {here.data_sha256[:16]}..., not "
                    f"{protocol.data[track.dataset]['sha256'][:16]}...; load the data set again"
                )
            for name, text in (
                (split_file(track.dataset, seed), here.split),
                (knowledge_file(track.dataset, alpha, seed), here.knowledge),
            ):
                if text != protocol.text(name):
                    raise BenchmarkError(
                        f"{name} is not what this fedgrain makes of seed {seed}: a changed split "
                        f"or knowledge is no result of benchmark {protocol.version}; use the "
                        "version of fedgrain that the protocol came with"
                    )
            found[seed] = here.prepared
    return found


def content_sha256(data: LabelledImages) -> str:
    """Return a hash of every image, label and split, and of the tree."""
    found = hashlib.sha256(data.taxonomy.content_hash.encode())
    found.update(repr((data.images.shape, data.split_names)).encode())
    for numbers in (data.labels, data.splits):
        found.update(np.ascontiguousarray(numbers, np.int64).tobytes())
    for start in range(0, len(data), _BLOCK):
        found.update(np.ascontiguousarray(data.images[start : start + _BLOCK]).tobytes())
    return found.hexdigest()


def split_text(prepared: Prepared) -> str:
    """Return a sign per image: the number of its client, v (validation) or t (test)."""
    signs = np.full(len(prepared.data), "-")
    for number, client in enumerate(prepared.federation.clients):
        signs[client.train.indices] = str(number)
    if prepared.federation.validation is not None:
        signs[prepared.federation.validation.indices] = "v"
    signs[prepared.test] = "t"
    text = "".join(signs.tolist())
    return "\n".join(text[i : i + _LINE] for i in range(0, len(text), _LINE)) + "\n"

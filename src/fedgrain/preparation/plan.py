"""What a run is about to do, in one block of text: data, sites, labels, model, training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedgrain.catalogue import stages
from fedgrain.config.config import Config
from fedgrain.federated import Client
from fedgrain.federated.sampling import joining
from fedgrain.knowledge.inference import infer
from fedgrain.preparation.prepare import Prepared

_MOST_SITES = 20  # rows of the table of sites
_NAME = 30  # characters of a site's name in it


def plan_of(config: Config, prepared: Prepared) -> list[str]:
    """Return the plan of a run as lines; the config must be complete."""
    lines = [
        ("data", _data(prepared)),
        ("federation", _federation(config, prepared)),
        ("validation", _validation(config, prepared)),
        ("model", _model(config, prepared)),
        ("training", _training(config)),
    ]
    block = [f"{name:<12}{text}" for name, text in lines]
    return block if config.simulated else [*block[:2], *_sites(config, prepared), *block[2:]]


def _data(prepared: Prepared) -> str:
    data, taxonomy = prepared.data, prepared.federation.taxonomy
    splits = ", ".join(f"{name} {count}" for name, count in data.split_counts.items())
    height, width = data.size
    tree = f"{len(taxonomy.leaves)} classes, {len(taxonomy.internal)} branches"
    return f"{data.name}: {len(data)} images of {width} x {height} pixels ({splits}); {tree}"


def _federation(config: Config, prepared: Prepared) -> str:
    count = len(prepared.federation.clients)
    joined = joining(count, prepared.settings.join_ratio)
    turn = "all train in every round" if joined == count else f"{joined} train in a round"
    if config.simulated:
        labels = f"knowledge is generated ({config.knowledge}, alpha {config.alpha:g})"
        whose = "" if config.partition == "manifest" else "made-up "
        return f"simulated: {count} {whose}clients, {labels}, labels are made coarser; {turn}"
    source = "the manifest" if config.partition == "manifest" else f"partition {config.partition}"
    known = "inferred from their labels" if config.knowledge == "inferred" else config.knowledge
    return f"real labels: {count} sites by {source}, what they know: {known}; {turn}"


def _validation(config: Config, prepared: Prepared) -> str:
    federation = prepared.federation
    parts = [client.validation for client in federation.clients]
    by = "the sites, on images of their own"
    if federation.validation is not None:
        parts, by = [federation.validation], "the server"
    labels = np.concatenate([part.labels for part in parts if part is not None] or [_NOTHING])
    share = federation.taxonomy.is_leaf(labels).sum() / max(1, len(labels))
    return f"by {by}: {len(labels)} images, {share:.0%} of their labels are leaves"


_NOTHING: NDArray[np.int64] = np.empty(0, np.int64)


def _model(config: Config, prepared: Prepared) -> str:
    trunk = prepared.spec.trunk
    how = f" (pretrained; trained: {trunk.train})" if trunk is not None else ""
    return f"net {prepared.spec.net}{how}, head {config.head}, supervision {config.supervision}"


def _training(config: Config) -> str:
    named = [(entry, getattr(config, entry.cap)) for entry in stages(config.algorithm)]
    most = ", then ".join(f"at most {cap} {e.unit}s of {e.name}" for e, cap in named)
    settings = f"batch {config.batch}, lr {config.lr:g}, seed {config.seed}"
    return f"{most}, {settings}; ends after {config.patience} without improvement"


def _sites(config: Config, prepared: Prepared) -> list[str]:
    """Return a table: the images of each site, how deep its labels are, and what it knows."""
    clients = prepared.federation.clients
    rows: list[tuple[str, ...]] = [("site", "images", "labels at depth", "knows", "")]
    rows += [_site(config, prepared, client) for client in clients[:_MOST_SITES]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  " + _padded(row, widths) for row in rows]
    more = len(clients) - _MOST_SITES
    return lines + [f"  ... and {more} more sites"] * (more > 0)


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = zip(row, widths, strict=True)
    return "  ".join(f"{cell:<{width}}" for cell, width in cells).rstrip()


def _site(config: Config, prepared: Prepared, client: Client) -> tuple[str, ...]:
    """Return a site's row; where its knowledge was inferred, the last cell says why."""
    taxonomy = prepared.federation.taxonomy
    depths = np.bincount(taxonomy.depth[client.train.labels])
    deep = ", ".join(f"{depth}: {count}" for depth, count in enumerate(depths) if count)
    known = int(client.knows[taxonomy.leaves].sum())
    knows = f"{known} of {len(taxonomy.leaves)} classes"
    return (
        client.name[:_NAME], str(len(client.train)), deep or "none", knows,
        _why(config, prepared, client),
    )  # fmt: skip


def _why(config: Config, prepared: Prepared, client: Client) -> str:
    """Say what was inferred from; held-out images were labelled by the site as well."""
    if config.knowledge != "inferred":
        return ""
    if client.train.labellers is not None:
        return f"inferred for each of {len(client.known) - 1} annotators"
    data, images = prepared.data, client.train.indices
    if client.validation is not None and not data.split_counts.get("validation"):
        images = np.concatenate([images, client.validation.indices])
    return infer(np.bincount(data.labels[images]), config.min_count).reason

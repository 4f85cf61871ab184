"""Which clients train: all, or those of two bounds (method, section 10).

The oracle is plain alpha 0, and the ceiling is *centralised* at alpha 0.

*centralised*: one site holds everyone's images, each with the label its own client wrote. Under
`paper` and `marginal` it does not matter who wrote a label; otherwise the site keeps that too, and
reads each label by what its own client knows.
*local-only*: one client trains alone on what it holds; a study takes the mean over clients.
"""

from __future__ import annotations

import numpy as np

from fedgrain.config.config import Config
from fedgrain.data import LabelledImages
from fedgrain.errors import ConfigError
from fedgrain.federated import Client, LabelledPart, TrainingSettings
from fedgrain.federated.federation import Indices
from fedgrain.federated.sampling import joining

_ANONYMOUS = frozenset({"paper", "marginal"})  # read a label alike, whoever wrote it


def training_sites(config: Config, clients: tuple[Client, ...]) -> tuple[Client, ...]:
    """Return the clients that train: all of them, all pooled at one site, or only one."""
    if config.pooled:
        return (_pooled(clients, by_labeller=not _ANONYMOUS.issuperset(_supervisions(config))),)
    if config.only_client is None:
        return clients
    if config.only_client >= len(clients):
        raise ConfigError(
            f"only_client is {config.only_client}, but the {len(clients)} clients are numbered "
            f"from 0 to {len(clients) - 1}"
        )
    return (clients[config.only_client],)


def own_validation(config: Config, data: LabelledImages, validation: Indices) -> Indices:
    """Return the validation images that decide when to stop.

    A site of a manifest that trains alone has only its own, if it has any. Without test images all
    stay: then the run is tested on them.
    """
    if config.only_client is None or config.partition != "manifest" or data.clients is None:
        return validation
    own = validation[data.clients[validation] == config.only_client]
    return own if len(own) and data.split_counts.get("test") else validation


def check_enough(settings: TrainingSettings, clients: int) -> None:
    """Refuse a run in which fewer clients take part in a round than its updates must be."""
    taking_part = joining(clients, settings.join_ratio)
    if settings.min_clients > taking_part:
        raise ConfigError(
            f"min_clients is {settings.min_clients}, but only {taking_part} of {clients} "
            "clients take part in a round; lower it or raise join_ratio"
        )


def _supervisions(config: Config) -> set[str]:
    return {config.supervision or "paper", config.first_stage_supervision or "paper"}


def _pooled(clients: tuple[Client, ...], *, by_labeller: bool) -> Client:
    """Return one client with everyone's images, and their labellers if they matter."""
    images = np.concatenate([client.train.indices for client in clients])
    labels = np.concatenate([client.train.labels for client in clients])
    if not by_labeller:
        known = np.logical_or.reduce([client.knows for client in clients])[None]
        return Client("all clients", LabelledPart(images, labels), known)
    known = np.concatenate([client.known for client in clients])
    first = np.cumsum([0, *(len(client.known) for client in clients)])
    whose = [
        start
        + (np.zeros(len(c.train), np.int64) if c.train.labellers is None else c.train.labellers)
        for start, c in zip(first, clients, strict=False)
    ]
    labellers = np.concatenate(whose) if len(known) > 1 else None
    return Client("all clients", LabelledPart(images, labels, labellers), known)

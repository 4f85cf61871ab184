"""Two of the bounds that frame every table (method, section 10); the oracle is plain alpha 0.

*centralised*: one site holds everyone's images, each with the label its own client wrote, and reads
the labels as the paper does. *local-only*: one client trains alone on what it holds; a study takes
the mean over clients.
"""

from __future__ import annotations

import numpy as np

from fedgrain.errors import ConfigError
from fedgrain.federated import Client, LabelledPart
from fedgrain.preparation.config import Config


def training_sites(config: Config, clients: tuple[Client, ...]) -> tuple[Client, ...]:
    """Return the clients that train: all of them, all pooled at one site, or only one."""
    if config.pooled:
        images = np.concatenate([client.train.indices for client in clients])
        labels = np.concatenate([client.train.labels for client in clients])
        known = np.logical_or.reduce([client.knows for client in clients])[None]
        return (Client("all clients", LabelledPart(images, labels), known),)
    if config.only_client is None:
        return clients
    if config.only_client >= len(clients):
        raise ConfigError(
            f"only_client is {config.only_client}, but the {len(clients)} clients are numbered "
            f"from 0 to {len(clients) - 1}"
        )
    return (clients[config.only_client],)

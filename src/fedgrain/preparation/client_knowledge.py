"""What the clients of a run know: generated, read from a file, or inferred (method, section 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedgrain.config.config import Config
from fedgrain.config.defaults import ALPHA
from fedgrain.data import LabelledImages
from fedgrain.errors import ConfigError, KnowledgeError
from fedgrain.knowledge import Knowledge, hidden_leaves, known_paths_only, relational_neighbours
from fedgrain.knowledge.knowledge import numbered_clients
from fedgrain.plugins import call_own
from fedgrain.preparation.labellers import in_order_of_manifest, inferred
from fedgrain.taxonomy import Taxonomy

Indices = NDArray[np.int64]


def client_knowledge(config: Config, data: LabelledImages, parts: list[Indices]) -> Knowledge:
    """Generate, load or infer what the clients know."""
    clients, full = len(parts), data.taxonomy
    if config.knowledge == "inferred":
        given = config.partition == "manifest"
        names = data.client_names if given else numbered_clients(clients)
        return inferred(data, parts, names, config.min_count)
    alpha = config.alpha if config.alpha is not None else ALPHA
    if config.knowledge_file is not None:
        knowledge = Knowledge.load(config.knowledge_file, full)
        if config.partition == "manifest":
            return in_order_of_manifest(knowledge, data, str(config.knowledge))
    elif config.knowledge == "relational":
        knowledge = relational_neighbours(
            full, clients, alpha, config.seed, graph=config.graph, expertise=config.expertise
        )
    elif config.knowledge in ("hidden-leaves", "known-paths"):
        generate = hidden_leaves if config.knowledge == "hidden-leaves" else known_paths_only
        knowledge = generate(full, clients, alpha, config.seed, expertise=config.expertise)
    else:
        knowledge = _users_knowledge(config, full, clients, alpha)
    if len(knowledge.client_names) != clients or knowledge.annotators is not None:
        raise KnowledgeError(
            f"{config.knowledge}: knowledge of {len(knowledge.known)} labellers for {clients} "
            "clients; give one entry per client"
        )
    return knowledge


def _users_knowledge(config: Config, full: Taxonomy, clients: int, alpha: float) -> Knowledge:
    """Call the user's generator: (taxonomy, clients, alpha, seed) -> Knowledge."""
    knowledge = call_own(
        str(config.knowledge), "knowledge", ConfigError, full, clients, alpha, config.seed,
        called_with="the taxonomy, the number of clients, alpha and the seed",
    )  # fmt: skip
    if not isinstance(knowledge, Knowledge):
        raise ConfigError(f"knowledge {config.knowledge!r} did not return a Knowledge")
    return knowledge

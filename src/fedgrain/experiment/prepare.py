"""From a config to a federation: images, taxonomy, clients, knowledge, labels (sections 5, 10).

Split, partition, knowledge and initial weights all derive from the run's seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrain.data import (
    LabelledImages,
    load_dataset,
    partition_dirichlet,
    partition_given,
    partition_iid,
    split_validation,
)
from fedgrain.data.glyphs import MAX_CHILDREN as GLYPH_MAX_CHILDREN
from fedgrain.errors import ConfigError, KnowledgeError
from fedgrain.experiment.config import Config
from fedgrain.federated import (
    Client,
    EarlyStopping,
    Federation,
    ImageSource,
    LabelledPart,
    LocalSettings,
    Model,
    Plan,
    ServerSettings,
)
from fedgrain.knowledge import (
    Knowledge,
    hidden_leaves,
    known_paths_only,
    project,
    relational_neighbours,
)
from fedgrain.plugins import load_callable
from fedgrain.taxonomy import DEFAULT_MAX_CHILDREN, Taxonomy, coarsen

Indices = NDArray[np.int64]

OWN_TREE_MAX_CHILDREN = 10
IMAGENET_SAMPLE_SEED = 46  # of the 500 images a class (method, section 10)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything a run needs: the federation, how it trains, and the images it is tested on."""

    data: LabelledImages
    federation: Federation
    model: Model
    plan: Plan
    algorithm: str
    test: Indices  # numbers of the test images; empty where the data has none


def prepare(config: Config) -> Prepared:
    """Load and deal out the data as the config says."""
    data = load_images(config)
    taxonomy = coarse_taxonomy(config, data)
    validation = server_validation(config, data)
    train = np.setdiff1d(data.split_indices("train"), validation)
    parts = [train[part] for part in _partition(config, data, train)]
    knowledge = client_knowledge(config, data, parts)
    clients = _clients(config, data, taxonomy, parts, knowledge)
    on_server = config.validation == "server"
    labels = data.taxonomy.nearest_in(taxonomy)[data.labels].astype(np.int64)
    federation = Federation(
        source=ImageSource(data.images, data.normalisation),
        taxonomy=taxonomy,
        full_taxonomy=data.taxonomy,
        clients=clients,
        validation=LabelledPart(validation, labels[validation]) if on_server else None,
    )
    test = data.split_indices("test") if "test" in data.split_names else np.empty(0, np.int64)
    model, plan = model_of(config, data), plan_of(config)
    return Prepared(data, federation, model, plan, config.algorithm, test)


def load_images(config: Config) -> LabelledImages:
    """Load the data set with the options the config sets."""
    named = {"imagenet": {"seed": IMAGENET_SAMPLE_SEED}}.get(config.dataset, {})
    options: dict[str, object] = dict(named)
    given = {
        "size": config.image_size,
        "per_class": config.images_per_class,
        "manifest": config.manifest,
        "taxonomy": config.taxonomy,
    }
    options.update({name: value for name, value in given.items() if value is not None})
    data = load_dataset(config.dataset, root=config.data_root, **options)
    if "train" not in data.split_names or not len(data.split_indices("train")):
        raise ConfigError(f"data set {config.dataset} has no training images")
    return data


def coarse_taxonomy(config: Config, data: LabelledImages) -> Taxonomy:
    """Return H: the data set's tree coarsened; a user's own tree only when asked."""
    wanted = config.dataset != "folder" if config.coarsen is None else config.coarsen
    if not wanted:
        return data.taxonomy
    defaults = {**DEFAULT_MAX_CHILDREN, "glyphs": GLYPH_MAX_CHILDREN}
    most = config.max_children or defaults.get(config.dataset, OWN_TREE_MAX_CHILDREN)
    return coarsen(data.taxonomy, most, config.singletons).taxonomy


def server_validation(config: Config, data: LabelledImages) -> Indices:
    """Return the images the server holds out; none where the clients validate."""
    if config.validation == "clients":
        return np.empty(0, np.int64)
    if "validation" in data.split_names and len(data.split_indices("validation")):
        return data.split_indices("validation")
    train = data.split_indices("train")
    share, names = config.validation_share, data.taxonomy.names
    _, held_out = split_validation(data.labels[train], share, seed=config.seed, names=names)
    return train[held_out]


def _partition(config: Config, data: LabelledImages, train: Indices) -> list[Indices]:
    if config.partition == "manifest":
        owners = None if data.clients is None else data.clients[train]
        return partition_given(owners, data.client_names)
    if config.partition == "dirichlet":
        labels, spread = data.labels[train], config.concentration
        return partition_dirichlet(labels, config.clients, spread, seed=config.seed)
    return partition_iid(len(train), config.clients, seed=config.seed)


def client_knowledge(config: Config, data: LabelledImages, parts: list[Indices]) -> Knowledge:
    """Generate, load or infer what the clients know."""
    clients, full = len(parts), data.taxonomy
    if config.knowledge == "inferred":
        labels = np.concatenate([data.labels[part] for part in parts])
        owners = np.repeat(np.arange(clients), [len(part) for part in parts])
        return Knowledge.from_labels(full, labels, owners, min_count=config.min_count)
    if config.knowledge.endswith(".json"):
        knowledge = Knowledge.load(Path(config.knowledge), full)
    elif config.knowledge == "relational":
        knowledge = relational_neighbours(
            full, clients, config.alpha, config.seed, graph=config.graph, expertise=config.expertise
        )
    elif config.knowledge in ("hidden-leaves", "known-paths"):
        generate = hidden_leaves if config.knowledge == "hidden-leaves" else known_paths_only
        knowledge = generate(full, clients, config.alpha, config.seed, expertise=config.expertise)
    else:
        own = load_callable(config.knowledge, "knowledge", ConfigError)
        knowledge = own(full, clients, config.alpha, config.seed)
        if not isinstance(knowledge, Knowledge):
            raise ConfigError(f"knowledge {config.knowledge!r} did not return a Knowledge")
    if len(knowledge.client_names) != clients or knowledge.annotators is not None:
        raise KnowledgeError(
            f"{config.knowledge}: knowledge of {len(knowledge.known)} labellers for {clients} "
            "clients; give one entry per client"
        )
    return knowledge


def _clients(
    config: Config,
    data: LabelledImages,
    taxonomy: Taxonomy,
    parts: list[Indices],
    knowledge: Knowledge,
) -> tuple[Client, ...]:
    """Let every client write its labels: the deepest node it knows, or what it really wrote."""
    known = knowledge.on(taxonomy)
    nodes = data.taxonomy.nearest_in(taxonomy)[data.labels]  # [images]
    written = None if config.knowledge == "inferred" else project(taxonomy, knowledge).of_nodes
    given = data.client_names if config.partition == "manifest" else knowledge.client_names
    clients = []
    for number, part in enumerate(parts):
        labels = nodes[part] if written is None else written[number, nodes[part]]
        whole = LabelledPart(part, labels.astype(np.int64))
        train, own = (
            (whole, None) if config.validation == "server" else _held_out(config, whole, number)
        )
        clients.append(Client(given[number], train, known[number], own))
    return tuple(clients)


def _held_out(config: Config, part: LabelledPart, client: int) -> tuple[LabelledPart, LabelledPart]:
    """Split a client's own images; a label that occurs once stays in training."""
    counts = np.bincount(part.labels)
    several = np.flatnonzero(counts[part.labels] > 1)
    if not len(several):
        return part, LabelledPart(np.empty(0, np.int64), np.empty(0, np.int64))
    seed = config.seed * 1_000_003 + client
    _, chosen = split_validation(part.labels[several], config.validation_share, seed=seed)
    own = np.zeros(len(part), dtype=np.bool_)
    own[several[chosen]] = True
    return (
        LabelledPart(part.indices[~own], part.labels[~own]),
        LabelledPart(part.indices[own], part.labels[own]),
    )


def model_of(config: Config, data: LabelledImages) -> Model:
    """Return the net and head; without a net asked for, the paper's for this image size."""
    side = min(data.size)
    by_size = "squeezenet" if side >= 95 else "cnn-64" if side >= 48 else "cnn-32"
    first = config.first_stage_supervision or config.supervision
    return Model(config.net or by_size, config.head, first, config.supervision, config.laziness)


def plan_of(config: Config) -> Plan:
    """Return how the run trains; what is unset is the paper's appendix."""
    imagenet = config.dataset == "imagenet"
    local = LocalSettings(
        lr=config.lr,
        batch=config.batch or (128 if imagenet else 32),
        epochs=config.epochs,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        proximal=config.proximal,
        crop_and_flip=config.crop_and_flip,
    )
    join = config.join_ratio if config.join_ratio is not None else (0.4 if imagenet else 0.5)
    return Plan(
        seed=config.seed,
        join_ratio=join,
        rounds=config.rounds,
        cycles=config.cycles,
        local=local,
        branch=LocalSettings(**{**vars(local), "lr": config.branch_lr}),
        server=ServerSettings(config.server_optimizer, config.server_lr, config.server_momentum),
        stopping=EarlyStopping(config.patience, config.min_delta),
        min_branch_samples=config.min_branch_samples,
        min_clients=config.min_clients,
    )

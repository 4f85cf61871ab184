"""From a config to a federation: images, taxonomy, clients, knowledge, labels (sections 5, 10).

Split, partition, knowledge and initial weights all derive from the run's seed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrain.catalogue import net_for
from fedgrain.data import (
    LabelledImages,
    load_dataset,
    partition_dirichlet,
    partition_given,
    partition_iid,
    split_validation,
)
from fedgrain.engines import ModelSpec
from fedgrain.errors import ConfigError, KnowledgeError
from fedgrain.federated import (
    Client,
    EarlyStopping,
    Federation,
    ImageSource,
    LabelledPart,
    LocalSettings,
    ServerSettings,
    TrainingSettings,
)
from fedgrain.federated.sampling import joining
from fedgrain.knowledge import (
    Knowledge,
    hidden_leaves,
    known_paths_only,
    project,
    relational_neighbours,
)
from fedgrain.knowledge.knowledge import numbered_clients
from fedgrain.plugins import call_own
from fedgrain.randomness import numpy_generator
from fedgrain.runs.config import Config
from fedgrain.runs.labellers import Labellers, in_order_of_manifest, inferred, labellers
from fedgrain.runs.participants import training_sites
from fedgrain.runs.trained_model import ModelDescription
from fedgrain.runs.zero_shot import hide_unseen, seen_taxonomy
from fedgrain.taxonomy import Taxonomy, coarsen

Indices = NDArray[np.int64]

IMAGENET_SAMPLE_SEED = 46  # of the 500 images a class (method, section 10)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything a run needs: the federation, its settings, and the test images."""

    data: LabelledImages
    federation: Federation
    spec: ModelSpec
    settings: TrainingSettings
    algorithm: str
    test: Indices  # numbers of the test images; empty where the data has none

    @property
    def description(self) -> ModelDescription:
        """The model that is trained, but for its weights."""
        federation = self.federation
        return ModelDescription(
            self.spec,
            federation.taxonomy,
            federation.full_taxonomy,
            federation.source.shape,
            federation.source.normalisation,
        )

    def with_images(self, images: NDArray[np.uint8]) -> Prepared:
        """Return the same on another copy of the images; the first copy can then be freed."""
        source = replace(self.federation.source, images=images)
        federation = replace(self.federation, source=source)
        return replace(self, data=replace(self.data, images=images), federation=federation)


def prepare(config: Config) -> Prepared:
    """Load the data and divide it among the clients."""
    config = config.complete()
    data = load_images(config)
    if config.zero_shot:
        data = hide_unseen(data, config.seed)
    return prepare_from(config, data)


def prepare_from(config: Config, data: LabelledImages) -> Prepared:
    """Divide loaded data among the clients; the config must be complete."""
    if not data.split_counts.get("train"):
        raise ConfigError(f"data set {config.dataset} has no training images; add some")
    taxonomy = coarse_taxonomy(config, data.taxonomy)
    validation = server_validation(config, data)
    train = np.setdiff1d(data.split_indices("train"), validation)
    parts = [train[part] for part in _partition(config, data, train)]
    knowledge = client_knowledge(config, data, parts)
    clients = training_sites(config, _clients(config, data, taxonomy, parts, knowledge))
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
    spec, settings = model_spec(config, min(data.size)), training_settings(config)
    joining_clients = joining(len(clients), settings.join_ratio)
    if settings.min_clients > joining_clients:
        raise ConfigError(
            f"min_clients is {settings.min_clients}, but only {joining_clients} of {len(clients)} "
            "clients take part in a round; lower it or raise join_ratio"
        )
    return Prepared(data, federation, spec, settings, config.algorithm, test)


def load_images(config: Config) -> LabelledImages:
    """Load the data set with the options the config sets."""
    options: dict[str, object] = {}
    if config.dataset == "imagenet":
        given_seed = config.sample_seed
        options["seed"] = IMAGENET_SAMPLE_SEED if given_seed is None else given_seed
    given = {
        "size": config.image_size,
        "per_class": config.images_per_class,
        "manifest": config.manifest,
        "taxonomy": config.taxonomy,
        "max_unreadable": config.max_unreadable,
        "allow_links": config.allow_links,
    }
    options.update({name: value for name, value in given.items() if value is not None})
    return load_dataset(config.dataset, root=config.data_root, **options)


def coarse_taxonomy(config: Config, tree: Taxonomy) -> Taxonomy:
    """Return H: the data set's tree coarsened; a user's own tree only when asked."""
    full = seen_taxonomy(tree, config.seed) if config.zero_shot else tree
    if not config.coarsen:
        return full
    assert config.max_children is not None  # a complete config
    return coarsen(full, config.max_children, config.singletons).taxonomy


def server_validation(config: Config, data: LabelledImages) -> Indices:
    """Return the images the server holds out; empty if the clients validate."""
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
        given = config.partition == "manifest"
        names = data.client_names if given else numbered_clients(clients)
        return inferred(data, parts, names, config.min_count)
    if config.knowledge.endswith(".json"):
        knowledge = Knowledge.load(Path(config.knowledge), full)
        if config.partition == "manifest":
            return in_order_of_manifest(knowledge, data, config.knowledge)
    elif config.knowledge == "relational":
        knowledge = relational_neighbours(
            full, clients, config.alpha, config.seed, graph=config.graph, expertise=config.expertise
        )
    elif config.knowledge in ("hidden-leaves", "known-paths"):
        generate = hidden_leaves if config.knowledge == "hidden-leaves" else known_paths_only
        knowledge = generate(full, clients, config.alpha, config.seed, expertise=config.expertise)
    else:
        knowledge = _users_knowledge(config, full, clients)
    if len(knowledge.client_names) != clients or knowledge.annotators is not None:
        raise KnowledgeError(
            f"{config.knowledge}: knowledge of {len(knowledge.known)} labellers for {clients} "
            "clients; give one entry per client"
        )
    return knowledge


def _users_knowledge(config: Config, full: Taxonomy, clients: int) -> Knowledge:
    """Call the user's generator: (taxonomy, clients, alpha, seed) -> Knowledge."""
    knowledge = call_own(
        config.knowledge, "knowledge", ConfigError, full, clients, config.alpha, config.seed,
        called_with="the taxonomy, the number of clients, alpha and the seed",
    )  # fmt: skip
    if not isinstance(knowledge, Knowledge):
        raise ConfigError(f"knowledge {config.knowledge!r} did not return a Knowledge")
    return knowledge


def _clients(
    config: Config,
    data: LabelledImages,
    taxonomy: Taxonomy,
    parts: list[Indices],
    knowledge: Knowledge,
) -> tuple[Client, ...]:
    """Return the clients with their labels: the deepest node each knows, or what it really wrote.

    Labels are real where a manifest names their clients and no generator decides who knows what.
    """
    nodes = data.taxonomy.nearest_in(taxonomy)[data.labels]  # [images]
    real = config.knowledge == "inferred"
    real |= config.knowledge.endswith(".json") and config.partition == "manifest"
    written = None if real else project(taxonomy, knowledge).of_nodes
    names = data.client_names if config.partition == "manifest" else knowledge.client_names
    people = labellers(knowledge, data, taxonomy)

    def labelled(number: int, images: Indices) -> LabelledPart:
        wrote = nodes[images] if written is None else written[number, nodes[images]]
        labels: Indices = wrote.astype(np.int64)
        if config.lazy_labels:
            labels = _written_lazily(config, taxonomy, labels, number)
        return people[number].part(data, images, labels)

    clients = []
    for number, part in enumerate(parts):
        train, own = labelled(number, part), None
        if config.validation == "clients" and _has_validation(config, data):
            own = labelled(number, np.flatnonzero(_validation_owners(data) == number))
        elif config.validation == "clients":
            train, own = _held_out(config, train, number)
        clients.append(Client(names[number], train, people[number].known, own))
    if real:
        _warn_of_unknown_labels(config, taxonomy, clients, people)
    elif config.dataset == "folder":
        _warn_of_replaced_labels(config, nodes, clients)
    return tuple(clients)


def _warn_of_unknown_labels(
    config: Config, taxonomy: Taxonomy, clients: list[Client], people: list[Labellers]
) -> None:
    """Warn of labels that their labeller does not know according to the knowledge file."""
    if config.knowledge == "inferred":  # these are rare labels, fewer than min_count
        return
    found = []
    for client, own in zip(clients, people, strict=True):
        labels, who = client.train.labels, client.train.labellers
        wrote = np.stack([np.zeros_like(labels) if who is None else who, labels])
        pairs, counts = np.unique(wrote, axis=1, return_counts=True)
        found += [
            f"{own.names[labeller]} wrote {taxonomy.ids[label]!r} {count} times"
            for (labeller, label), count in zip(pairs.T, counts, strict=True)
            if not client.known[labeller, label]
        ]
    if found:
        more = f" (and {len(found) - 3} more such labels)" if len(found) > 3 else ""
        warnings.warn(
            f"{config.knowledge}: {', '.join(found[:3])}{more}, but its entry does not say that it "
            "knows that; the labels are kept: add the class to the entry, or correct the labels",
            stacklevel=2,
        )


def _warn_of_replaced_labels(
    config: Config, nodes: NDArray[np.int32], clients: list[Client]
) -> None:
    """Warn that a generator makes labels coarser than those the user gave."""
    replaced = sum(
        int((client.train.labels != nodes[client.train.indices]).sum()) for client in clients
    )
    if replaced:
        warnings.warn(
            f"{replaced} labels are made coarser, for a simulation of clients that know less "
            f"(knowledge {config.knowledge}, alpha {config.alpha:g}); --knowledge inferred trains "
            "on the labels as they are",
            stacklevel=2,
        )


def _written_lazily(
    config: Config, taxonomy: Taxonomy, labels: NDArray[np.int64], client: int
) -> NDArray[np.int64]:
    """Replace a random share of the client's leaf labels by their parents."""
    at_leaves = np.flatnonzero(np.isin(labels, taxonomy.leaves))
    generator = numpy_generator(config.seed, "lazy labels", client)
    count = int(config.lazy_labels * len(at_leaves) + 0.5)
    lazy = generator.permutation(at_leaves)[:count]
    written = labels.copy()
    written[lazy] = taxonomy.parents[labels[lazy]]
    return written


def _has_validation(config: Config, data: LabelledImages) -> bool:
    """Whether the manifest has validation images of the clients."""
    by_manifest = config.partition == "manifest" and data.clients is not None
    return by_manifest and bool(data.split_counts.get("validation"))


def _validation_owners(data: LabelledImages) -> Indices:
    """Return the client of every validation image, and -1 for other images."""
    assert data.clients is not None
    validating = data.splits == data.split_names.index("validation")
    return np.where(validating, data.clients, -1).astype(np.int64)


def _held_out(config: Config, part: LabelledPart, client: int) -> tuple[LabelledPart, LabelledPart]:
    """Split a client's own images; a label that occurs once stays in training."""
    counts = np.bincount(part.labels)
    several = np.flatnonzero(counts[part.labels] > 1)
    if not len(several):
        return part, part[np.zeros(len(part), np.bool_)]
    seed = int(numpy_generator(config.seed, "client validation", client).integers(2**63 - 1))
    _, chosen = split_validation(part.labels[several], config.validation_share, seed=seed)
    own = np.zeros(len(part), dtype=np.bool_)
    own[several[chosen]] = True
    return part[~own], part[own]


def model_spec(config: Config, image_size: int) -> ModelSpec:
    """Return the net and head; the default net is the paper's for this image size."""
    supervision = config.supervision or "paper"
    first = config.first_stage_supervision or supervision
    return ModelSpec(
        config.net or net_for(image_size),
        config.head,
        first,
        supervision,
        config.laziness,
        config.responsibilities,
        config.head_settings,
    )


def training_settings(config: Config) -> TrainingSettings:
    """Return the training settings of the run."""
    assert config.batch is not None and config.join_ratio is not None  # a complete config
    local = LocalSettings(
        lr=config.lr,
        batch=config.batch,
        epochs=config.epochs,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        proximal=config.proximal,
        crop_and_flip=config.crop_and_flip,
    )
    return TrainingSettings(
        seed=config.seed,
        join_ratio=config.join_ratio,
        rounds=config.rounds,
        cycles=config.cycles,
        local=local,
        branch=LocalSettings(**{**vars(local), "lr": config.branch_lr}),
        server=ServerSettings(config.server_optimizer, config.server_lr, config.server_momentum),
        average_rounds=config.average_rounds,
        stopping=EarlyStopping(config.patience, config.min_delta),
        min_branch_samples=config.min_branch_samples,
        min_clients=config.min_clients,
    )

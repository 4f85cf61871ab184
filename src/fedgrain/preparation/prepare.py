"""From a config to a federation: images, taxonomy, clients, knowledge, labels (sections 5, 10).

Split, partition, knowledge and initial weights all derive from the run's seed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.catalogue import net_for
from fedgrain.config.by_data import completed
from fedgrain.config.config import Config
from fedgrain.data import (
    LabelledImages,
    load_dataset,
    partition_dirichlet,
    partition_given,
    partition_iid,
    split_validation,
)
from fedgrain.data.model_labels import given_by_people
from fedgrain.engines import ModelSpec
from fedgrain.errors import ConfigError
from fedgrain.federated import (
    EarlyStopping,
    Federation,
    ImageSource,
    LabelledPart,
    LocalSettings,
    Schedule,
    ServerSettings,
    Source,
    TrainingSettings,
)
from fedgrain.heads import LossTerms
from fedgrain.models.model_folder import ModelDescription
from fedgrain.preparation.client_knowledge import client_knowledge
from fedgrain.preparation.client_labels import labelled_clients
from fedgrain.preparation.label_faults import with_long_tails
from fedgrain.preparation.participants import check_enough, own_validation, training_sites
from fedgrain.preparation.trunk import decoding_options, trunk_of
from fedgrain.preparation.zero_shot import hide_unseen, seen_taxonomy
from fedgrain.taxonomy import Taxonomy, coarsen
from fedgrain.text import counted
from fedgrain.trunks import TrunkSpec, Views, inputs_of

Indices = NDArray[np.int64]

_IMAGENET_SAMPLE_SEED = 46  # of the 500 images a class (method, section 10)


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
            self.data.images.shape[1:],
            self.data.normalisation,
        )

    def with_rows(self, rows: NDArray[Any]) -> Prepared:
        """Return the same on another copy of the source's rows; the first can then be freed."""
        source = self.federation.source
        federation = replace(self.federation, source=source.on(rows))
        data = replace(self.data, images=rows) if source.array is self.data.images else self.data
        return replace(self, data=data, federation=federation)


def prepare(config: Config) -> Prepared:
    """Load the data and divide it among the clients."""
    config = completed(config)
    trunk = trunk_of(config)
    return prepare_from(config, as_used(config, load_images(config, trunk)), trunk)


def as_used(config: Config, data: LabelledImages) -> LabelledImages:
    """Return the data as the run uses it: with zero_shot, unseen classes are out of training."""
    return hide_unseen(data, config.seed) if config.zero_shot else data


def prepare_from(config: Config, data: LabelledImages, trunk: TrunkSpec | None = None) -> Prepared:
    """Divide loaded data among the clients; the config must be complete."""
    if not data.split_counts.get("train"):
        raise ConfigError(f"data set {config.dataset} has no training images; add some")
    taxonomy = coarse_taxonomy(config, data.taxonomy)
    validation = server_validation(config, data)
    train = np.setdiff1d(data.split_indices("train"), validation)
    parts = [train[part] for part in _partition(config, data, train)]
    if config.partition == "manifest":
        _warn_of_empty_sites(data, parts)
    parts = with_long_tails(config, data.labels, parts)
    knowledge = client_knowledge(config, data, parts)
    clients = training_sites(config, labelled_clients(config, data, taxonomy, parts, knowledge))
    on_server = config.validation == "server"
    labels = data.taxonomy.nearest_in(taxonomy)[data.labels].astype(np.int64)
    deciding = own_validation(config, data, validation)
    federation = Federation(
        source=_source(config, data, trunk),
        taxonomy=taxonomy,
        full_taxonomy=data.taxonomy,
        clients=clients,
        validation=LabelledPart(deciding, labels[deciding]) if on_server else None,
    )
    test = data.split_indices("test") if "test" in data.split_names else np.empty(0, np.int64)
    _warn_of_root_labels(data, test)
    spec, settings = model_spec(config, min(data.size), trunk), training_settings(config)
    check_enough(settings, len(clients))
    return Prepared(data, federation, spec, settings, config.algorithm, test)


def _warn_of_empty_sites(data: LabelledImages, parts: list[Indices]) -> None:
    """Warn of sites with training images of which none is left to train on."""
    assert data.clients is not None  # as they were divided by them
    own = np.unique(data.clients[data.split_indices("train")])
    empty = [data.client_names[site] for site in own if site >= 0 and not len(parts[site])]
    if empty:
        warnings.warn(
            f"nothing is left to train on at {', '.join(empty)}: all its training images are held "
            "out to validate; add images, name the validation images yourself (split), or let the "
            "clients validate (--validation clients)",
            stacklevel=3,
        )


def _warn_of_root_labels(data: LabelledImages, test: Indices) -> None:
    vague = int((data.labels[test] == 0).sum())
    if vague:
        warnings.warn(
            f"{counted(vague, 'test label is', 'test labels are')} the root of the taxonomy, with "
            f"which every answer agrees, of {len(test):,}: they raise the score and tell nothing; "
            "give them better labels, or leave them out",
            stacklevel=3,
        )


def _source(config: Config, data: LabelledImages, trunk: TrunkSpec | None) -> Source:
    """Return what is trained on: pixels, or what the frozen part of a trunk makes of them."""
    if trunk is None:
        return ImageSource(data.images, data.normalisation)
    return inputs_of(trunk, data, Views(config.views, config.seed))


def load_images(config: Config, trunk: TrunkSpec | None = None) -> LabelledImages:
    """Load the data set with the options the config sets, as large as its trunk wants it.

    ``trunk`` is the config's own, where it is known already.
    """
    options = decoding_options(config, trunk)
    if config.dataset == "imagenet":
        given_seed = config.sample_seed
        options["seed"] = _IMAGENET_SAMPLE_SEED if given_seed is None else given_seed
    given = {
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
    """Return the images the server holds out; empty if the clients validate.

    From training images it takes those whose label a person gave.
    """
    if config.validation == "clients":
        return np.empty(0, np.int64)
    if "validation" in data.split_names and len(data.split_indices("validation")):
        return data.split_indices("validation")
    train = data.split_indices("train")
    train = train[given_by_people(data, train, "the training images")]
    share, names = config.validation_share, data.taxonomy.names
    _, held_out = split_validation(data.labels[train], share, seed=config.seed, names=names)
    return train[held_out]


def _partition(config: Config, data: LabelledImages, train: Indices) -> list[Indices]:
    if config.partition == "manifest":
        owners = None if data.clients is None else data.clients[train]
        return partition_given(owners, data.client_names)
    assert config.clients is not None  # a complete config
    if config.partition == "dirichlet":
        labels, spread = data.labels[train], config.concentration
        return partition_dirichlet(labels, config.clients, spread, seed=config.seed)
    return partition_iid(len(train), config.clients, seed=config.seed)


def model_spec(config: Config, image_size: int, trunk: TrunkSpec | None = None) -> ModelSpec:
    """Return the net and head; the default net is the paper's for this image size."""
    assert config.head is not None  # a complete config
    supervision = config.supervision or "paper"
    first = config.first_stage_supervision or supervision
    return ModelSpec(
        config.net or net_for(image_size),
        config.head,
        first,
        supervision,
        config.laziness,
        config.responsibilities or "step",
        config.head_settings,
        config.restricted_softmax,
        config.logit_calibration,
        LossTerms(config.label_smoothing, config.ancestor_terms, config.ancestor_decay, config.gce),
        trunk,
        config.labeller,
    )


def training_settings(config: Config) -> TrainingSettings:
    """Return the training settings of the run."""
    assert config.batch is not None and config.join_ratio is not None  # a complete config
    assert config.lr is not None and config.average_rounds is not None
    assert config.patience is not None
    local = LocalSettings(
        lr=config.lr,
        batch=config.batch,
        epochs=config.epochs,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        proximal=config.proximal,
        crop_and_flip=config.crop_and_flip,
        sam=config.sam,
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
        schedule=Schedule(config.schedule, config.step_rounds, config.step_factor),
    )

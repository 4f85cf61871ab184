"""The settings of one run: complete, checked, written as TOML (method, section 10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedgrain import catalogue
from fedgrain.config import defaults
from fedgrain.config.config_checks import check_settings
from fedgrain.config.setting_fields import check_choice, check_type, toml_value
from fedgrain.config.setting_fields import setting as _setting
from fedgrain.errors import ConfigError
from fedgrain.parsing import refuse_unknown
from fedgrain.plugins import named_code

# where files are and how they are reached: only their content affects the result
DATA_PLACES = ("data_root", "manifest", "taxonomy", "allow_links")
PLACES = (*DATA_PLACES, "net_weights", "embed_trunk")


@dataclass(frozen=True)
class Config:
    """Everything that decides the result of a run.

    What is unset (None) has a default that depends on other settings: see :meth:`complete`.
    """

    dataset: str = _setting("glyphs", "data set", tuple(catalogue.DATASETS), own=True)
    data_root: str | None = _setting(
        None, "where its files are (default: FEDGRAIN_DATA, the cache)"
    )
    manifest: str | None = _setting(None, "folder: the CSV of images (default: images.csv in it)")
    taxonomy: str | None = _setting(
        None, "folder: the CSV of the tree (default: taxonomy.csv in it)"
    )
    image_size: int | None = _setting(
        None,
        "imagenet (224), folder: side of the images in pixels (default: by them, up to 64)",
    )
    max_unreadable: float | None = _setting(
        None, "folder: the share of images that may be unreadable (default 0.01)"
    )
    allow_links: bool | None = _setting(
        None, "folder: follow links to images outside it (default: no)"
    )
    images_per_class: int | None = _setting(
        None, "sample of each class, for imagenet (default 500)"
    )
    algorithm: str = _setting("fedavg", "training algorithm", tuple(catalogue.ALGORITHMS), own=True)
    head: str | None = _setting(
        None,
        "head (default: flat-softmax for own images as their sites labelled them, else "
        "cond-softmax; fedbdft needs cond-softmax)",
        tuple(catalogue.HEADS),
        own=True,
    )
    supervision: str | None = _setting(
        None,
        "how a label at an inner node is read (default: projection with a knowledge file, learned "
        "if knowledge is inferred, paper if it is simulated)",
        catalogue.SUPERVISIONS,
    )
    first_stage_supervision: str | None = _setting(
        None, "fedbdft: supervision of its first stage (default: the same)", catalogue.SUPERVISIONS
    )
    margin_type: str = _setting(
        "incorrect", "softmax-margin: what the margin of a node depends on", catalogue.MARGINS
    )
    margin_size: float = _setting(5.0, "softmax-margin: factor of the margin (tau)")
    laziness: float = _setting(0.0, "projection: how often a labeller stops early, from 0 to 1")
    responsibilities: str | None = _setting(
        None,
        "marginal, projection: distribute a label over its leaves at each step, or once a round by "
        "the global model (flat-softmax, ps-softmax); learned does it once a round in any case "
        "(default: round for own images, else step)",
        catalogue.RESPONSIBILITIES,
    )
    labeller: str = _setting("stops", "learned: how a labeller is modelled", catalogue.LABELLERS)
    net: str | None = _setting(
        None,
        "net (default: by image size); timm:NAME is a pretrained trunk",
        tuple(catalogue.NETS),
        own=True,
    )
    net_weights: str | None = _setting(
        None, "weights of a pretrained trunk: a file, package:NAME (default for timm: its hub)"
    )
    net_weights_sha256: str | None = _setting(None, "SHA-256 that the weights must have")
    train: str | None = _setting(
        None, "what of a trunk is trained: head (default), blocks:N (the last N), all"
    )
    hidden: int | None = _setting(None, "trunk: width of a hidden layer before the head")
    views: int = _setting(1, "trunk: views of each training image, the plain one included")
    embed_trunk: bool = _setting(False, "trunk: put its weights into the folder of the model")
    alpha: float | None = _setting(
        None, "simulation: share of leaf classes a client does not know (default 0.9)"
    )
    clients: int | None = _setting(None, "simulation: number of clients (default 10)")
    knowledge: str | None = _setting(
        None,
        "what clients know: inferred from their labels, a JSON file, or a generator (default: "
        "inferred if a manifest names clients, else relational)",
        catalogue.KNOWLEDGE,
        own=True,
    )
    graph: str = _setting("complete", "graph of the relational generator", ("complete", "tree"))
    expertise: str = _setting("random", "how known leaves are drawn", ("random", "coherent"))
    lazy_labels: float = _setting(
        0.0, "for experiments: share of leaf labels replaced by their parent"
    )
    wrong_labels: str | None = _setting(
        None, "for experiments: leaf labels that are wrong: siblings:SHARE, shifted or spelling"
    )
    mixed_clients: bool = _setting(
        False,
        "for experiments: of three clients one is lazy, one careful, one has mostly rare classes",
    )
    infer_knowledge: bool = _setting(
        False, "for experiments: what simulated clients know is inferred from their labels"
    )
    min_count: int | None = _setting(
        None,
        "inferred knowledge: how often a label must occur (default: twice; once where slips do not "
        "explain the number of labels that occur once)",
    )
    partition: str | None = _setting(
        None,
        "how images are divided among clients (default: manifest if it names clients, else iid)",
        catalogue.PARTITIONS,
    )
    concentration: float = _setting(0.5, "of the dirichlet partition; small is uneven")
    coarsen: bool | None = _setting(None, "coarsen the taxonomy (default: yes, except for folder)")
    max_children: int | None = _setting(None, "coarsening: most children of a node")
    singletons: str = _setting(
        "cohesive", "coarsening: score of singletons", ("cohesive", "neutral")
    )
    join_ratio: float | None = _setting(
        None, "share of clients in a round (0.5; imagenet 0.4; up to ten real sites 1)"
    )
    rounds: int = _setting(100, "most rounds of fedavg, and of fedbdft's first stage")
    cycles: int = _setting(20, "fedbdft: most cycles over the branches")
    epochs: int = _setting(1, "local epochs")
    batch: int | None = _setting(None, "batch size (32; imagenet 128)")
    lr: float | None = _setting(
        None,
        "learning rate (default 0.05; 0.1 on a frozen trunk and for flat-softmax on own images)",
    )
    schedule: str = _setting(
        "constant",
        "learning rates over the rounds: constant, cosine (towards 0) or step",
        catalogue.SCHEDULES,
    )
    step_rounds: int = _setting(30, "schedule step: rounds after which the rates are multiplied")
    step_factor: float = _setting(0.1, "schedule step: what they are multiplied by")
    branch_lr: float = _setting(0.01, "fedbdft: learning rate of the branches")
    min_branch_samples: int = _setting(
        8, "fedbdft: samples a client needs to train a branch (gamma)"
    )
    momentum: float = _setting(0.0, "momentum of the clients' SGD")
    weight_decay: float = _setting(0.0, "weight decay of the clients' SGD")
    label_smoothing: float = _setting(0.0, "share of a label that is spread over all leaves")
    ancestor_terms: float = _setting(
        0.0, "flat-softmax, ps-softmax: weight of -log P(a) at depth 1 for a above the label's set"
    )
    ancestor_decay: float = _setting(1.0, "ancestor_terms: factor of the weight per level")
    gce: float = _setting(0.0, "generalised cross-entropy: its q; 0 is the plain loss")
    restricted_softmax: float | None = _setting(
        None, "FedRS: factor of the scores of classes a client has no label of (the paper: 0.5)"
    )
    logit_calibration: float = _setting(0.0, "FedLC: margin of rare classes (tau)")
    sam: float = _setting(0.0, "SAM: radius of sharpness-aware steps at the clients (0: none)")
    proximal: float = _setting(0.0, "FedProx: weight of the proximal term")
    crop_and_flip: bool = _setting(False, "augment by random crops and mirroring")
    server_optimizer: str = _setting(
        "none",
        "server step: none (FedAvg), sgd (FedAvgM), adam, adagrad",
        catalogue.SERVER_OPTIMIZERS,
    )
    server_lr: float = _setting(1.0, "learning rate of the server's optimiser")
    server_momentum: float = _setting(0.0, "momentum of the server's sgd")
    average_rounds: int | None = _setting(
        None,
        "fedavg: average the weights of about this many last rounds (default 1, which is only the "
        "last; 10 on a frozen trunk and for own images)",
    )
    patience: int | None = _setting(
        None, "early stopping: rounds without improvement (default 10; 30 for own images)"
    )
    min_delta: float = _setting(1e-4, "early stopping: smallest improvement that counts")
    validation: str = _setting("server", "who validates", ("server", "clients"))
    validation_share: float = _setting(0.2, "share of the training images held out")
    min_clients: int = _setting(1, "updates a round needs to count")
    client_time_limit: float | None = _setting(
        None, "seconds to wait for a client's update (default: forever)"
    )
    seed: int = _setting(47, "seed of all random numbers")
    sample_seed: int | None = _setting(None, "imagenet: seed of the sample of each class (46)")
    zero_shot: bool = _setting(False, "train on a random half of the classes, test on all; alpha 0")
    pooled: bool = _setting(False, "the bound centralised: everyone's images at one site")
    only_client: int | None = _setting(
        None, "the bound local-only: this client trains alone (numbered from 0)"
    )

    def __new__(cls, *_: Any, **settings: Any) -> Config:
        """Refuse a setting that there is not, and name the nearest; ``__init__`` does the rest."""
        known_settings(settings, "a setting")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for setting in fields(self):
            check_type(setting.name, getattr(self, setting.name), str(setting.type))
            value = getattr(self, setting.name)
            if str(setting.type).startswith("float") and value is not None:
                object.__setattr__(self, setting.name, float(value))  # 0 and 0.0 are the same
            check_choice(setting.name, getattr(self, setting.name), setting.metadata)
        check_settings(self)

    @property
    def simulated(self) -> bool:
        """Whether one of our generators decides who knows what, according to alpha."""
        return defaults.federation(self)["knowledge"] in catalogue.KNOWLEDGE_GENERATORS

    @property
    def knowledge_file(self) -> Path | None:
        """The user's file of what the clients know; None if it is not from a file."""
        given = self.knowledge is not None and self.knowledge.endswith(".json")
        return Path(str(self.knowledge)) if given else None

    @property
    def real_labels(self) -> bool:
        """Whether the labels of clients are what they really wrote; for a complete config."""
        by_file = self.knowledge_file is not None and self.partition == "manifest"
        return self.knowledge == "inferred" or by_file

    @property
    def has_trunk(self) -> bool:
        """Whether the net is a pretrained trunk, of which a part is trained."""
        return self.net is not None and (
            self.net.startswith(catalogue.TIMM) or self.net_weights is not None
        )

    @property
    def head_settings(self) -> dict[str, Any]:
        """The settings a head is built with, besides the taxonomy."""
        entry = catalogue.HEADS.get(self.head or "")
        return {name: getattr(self, name) for name in entry.settings} if entry else {}

    def complete(self) -> Config:
        """Return the config with every default filled in that depends on settings alone.

        Of a user's folder of images some depend on the images and the manifest as well, and stay
        unset here: see :func:`fedgrain.config.by_data.completed`. What has no meaning (alpha
        and clients of a real federation) becomes unset.
        """
        data, own = catalogue.dataset(self.dataset), defaults.federation(self)
        values: dict[str, Any] = {
            "head": defaults.head(self),
            "supervision": defaults.supervision(self),
            **defaults.rates(self),
            "join_ratio": defaults.join_ratio(replace(self, **own)),
            "batch": 32,
            "train": "head" if self.has_trunk else None,
            "coarsen": data.coarsen,
            "max_children": data.max_children,
            **data.defaults,
        }
        missing = {n: value for n, value in values.items() if getattr(self, n) is None}
        return replace(self, **own, **missing)

    def settings(self) -> dict[str, Any]:
        """Return every setting by name."""
        return asdict(self)

    def code(self) -> frozenset[str]:
        """Return the settings that are the user's own code, named ``module:callable``."""
        return frozenset(named_code(self.settings()).values())

    def toml(self) -> str:
        """Return the settings as TOML; unset ones are comments."""
        lines = [
            f"# {name} is not set" if value is None else f"{name} = {toml_value(value)}"
            for name, value in self.settings().items()
        ]
        return "\n".join(lines) + "\n"


def known_settings(settings: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Refuse a setting that there is not, and name the nearest."""
    names = [setting.name for setting in fields(Config)]
    refuse_unknown(settings, names, what, ConfigError)
    return dict(settings)

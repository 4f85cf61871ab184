"""Everything fedgrain offers by name, and what each of them can do.

The command line, the configs and the studies read this page instead of importing what it lists, so
it imports neither numpy nor torch. To add a head, a net, a data set or an algorithm, write its file
and add one line here; ``home`` names the class or function that makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from fedgrain.errors import FedgrainError

SUPERVISIONS = ("paper", "marginal", "projection", "learned")
RESPONSIBILITIES = ("step", "round")
LABELLERS = ("stops", "siblings", "fedmt")  # how `learned` models a labeller
MARGINS = ("incorrect", "edge-distance", "depth-deficit", "information-distance")
RULES = ("leaf", "majority", "threshold", "expected-hf")
KNOWLEDGE_GENERATORS = ("relational", "hidden-leaves", "known-paths")
KNOWLEDGE = (*KNOWLEDGE_GENERATORS, "inferred")
PARTITIONS = ("iid", "dirichlet", "manifest")
SERVER_OPTIMIZERS = ("none", "sgd", "adam", "adagrad")
SCHEDULES = ("constant", "cosine", "step")
TABLE_FORMATS = ("text", "markdown", "latex", "csv", "json")
# the formats of predictions, each with the ending of its files
PREDICTION_FORMATS = {"text": ".txt", "csv": ".csv", "jsonl": ".jsonl", "json": ".json",
                      "html": ".html"}  # fmt: skip
TRACKERS = {"tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb"}  # name: package
TIMM = "timm:"  # how the name of a net begins that is a pretrained trunk of timm
OWN_TREE_MAX_CHILDREN = 10  # of a user's tree, if it is coarsened

_NO_NEGATIVES = "it would have no negatives"
_NO_SHARES = "its leaves do not share out a probability of 1"
_OWN_PROBABILITY = "its internal nodes hold probability of their own"


@dataclass(frozen=True)
class HeadEntry:
    """A head: how it may read a coarse label, and why not in other ways."""

    name: str
    home: str
    refuses: Mapping[str, str] = field(default_factory=dict)  # supervision: why it has no meaning
    settings: tuple[str, ...] = ()  # of a config, which it is built with
    responsibilities: bool = False  # labels can be shared out over the leaves once a round

    @property
    def supervisions(self) -> tuple[str, ...]:
        """The supervisions the head can be trained with."""
        return tuple(name for name in SUPERVISIONS if name not in self.refuses)


@dataclass(frozen=True)
class NetEntry:
    """A net: the images it takes, and the heads it cannot carry."""

    name: str
    home: str
    smallest_side: int  # of an image, in pixels
    usual_side: int
    chosen_from: int  # the default for images whose shorter side has at least this many pixels
    refuses: Mapping[str, str] = field(default_factory=dict)  # head: why the pair has no meaning


@dataclass(frozen=True)
class DatasetEntry:
    """A data set: where it is loaded, and the defaults of the method for it."""

    name: str
    home: str
    max_children: int = OWN_TREE_MAX_CHILDREN
    coarsen: bool = True
    layout: str | None = None  # how its files are recognised on disk
    downloadable: bool = False  # the layout says where from
    own_images: bool = False  # the user's: the tree and the sites are real
    resizable: bool = False  # has the setting image_size
    defaults: Mapping[str, Any] = field(default_factory=dict)  # settings other than the usual


@dataclass(frozen=True)
class AlgorithmEntry:
    """A federated algorithm: what it needs, and how its rounds are counted.

    ``begins_with`` names the algorithm that is its first stage. A run of that algorithm with the
    same settings, ``own_settings`` aside, is where it can start from.
    """

    name: str
    home: str
    head: str | None = None  # the only head it works with
    supervisions: tuple[str, ...] = SUPERVISIONS
    begins_with: str | None = None
    own_settings: tuple[str, ...] = ()
    rate: str = "lr"  # the setting that a search of learning rates tries
    cap: str = "rounds"  # the setting that ends its last stage
    unit: str = "round"
    by_branch: bool = False  # every branch of the tree is trained on its own


@dataclass(frozen=True)
class ImporterEntry:
    """A format that ``fedgrain import`` reads."""

    name: str
    home: str
    reads: str  # in a few words


@dataclass(frozen=True)
class ExportEntry:
    """A format in which a model is written for other programs."""

    name: str
    home: str  # called with what is exported and where to
    default: str  # the name of the file or folder, in the folder of the run
    content: str  # what is written, for the help
    folder: bool = False  # and not one file


@dataclass(frozen=True)
class ExchangeEntry:
    """Predictions as another program reads them."""

    name: str
    home: str  # called with the rows and who predicted them
    ending: str  # of its files; several formats may have one
    ranks: tuple[str, ...] = ()  # that it has fields for


Entry = TypeVar(
    "Entry",
    HeadEntry,
    NetEntry,
    DatasetEntry,
    AlgorithmEntry,
    ImporterEntry,
    ExportEntry,
    ExchangeEntry,
)


def _by_name(*entries: Entry) -> Mapping[str, Entry]:
    return MappingProxyType({entry.name: entry for entry in entries})


HEADS = _by_name(
    HeadEntry("flat-softmax", "fedgrain.heads.flat_softmax:FlatSoftmax", responsibilities=True),
    HeadEntry("ps-softmax", "fedgrain.heads.ps_softmax:PSSoftmax", responsibilities=True),
    HeadEntry("cond-sigmoid", "fedgrain.heads.cond_sigmoid:CondSigmoid",
              {"marginal": _NO_NEGATIVES, "projection": _NO_SHARES, "learned": _NO_SHARES}),
    HeadEntry("cond-softmax", "fedgrain.heads.cond_softmax:CondSoftmax"),
    HeadEntry("softmax-descendant", "fedgrain.heads.softmax_descendant:SoftmaxDescendant",
              {"projection": _OWN_PROBABILITY, "learned": _OWN_PROBABILITY}),
    HeadEntry("softmax-margin", "fedgrain.heads.softmax_margin:SoftmaxMargin",
              {"projection": _OWN_PROBABILITY, "learned": _OWN_PROBABILITY},
              settings=("margin_type", "margin_size")),
)  # fmt: skip

NETS = _by_name(
    NetEntry("cnn-32", "fedgrain.nets.cnn:cnn_32", 16, 32, 0),
    NetEntry("cnn-64", "fedgrain.nets.cnn:cnn_64", 36, 64, 48),
    NetEntry("squeezenet", "fedgrain.nets.squeezenet:SqueezeNet", 95, 224, 95,
             {"cond-sigmoid": "its last ReLU makes every sigmoid at least 0.5"}),
)  # fmt: skip

DATASETS = _by_name(
    DatasetEntry("glyphs", "fedgrain.data.glyphs:load_glyphs", max_children=4),
    DatasetEntry("cifar100", "fedgrain.data.cifar100:load_cifar100", max_children=8,
                 layout="fedgrain.data.cifar100:LAYOUT", downloadable=True),
    DatasetEntry("tiny-imagenet", "fedgrain.data.tiny_imagenet:load_tiny_imagenet",
                 max_children=10, layout="fedgrain.data.tiny_imagenet:LAYOUT", downloadable=True),
    DatasetEntry("imagenet", "fedgrain.data.imagenet:load_imagenet", max_children=32,
                 layout="fedgrain.data.imagenet:LAYOUT", resizable=True,
                 defaults={"join_ratio": 0.4, "batch": 128, "images_per_class": 500}),
    DatasetEntry("folder", "fedgrain.folders.folder:load_folder", coarsen=False, own_images=True,
                 resizable=True),
)  # fmt: skip

DOWNLOADABLE = tuple(name for name, entry in DATASETS.items() if entry.downloadable)
WITH_CLASSES = tuple(name for name, entry in DATASETS.items() if not entry.own_images)

ALGORITHMS = _by_name(
    AlgorithmEntry("fedavg", "fedgrain.federated.fedavg:FedAvg"),
    AlgorithmEntry("scaffold", "fedgrain.federated.scaffold:Scaffold"),
    AlgorithmEntry("fedbdft", "fedgrain.federated.fedbdft:FedBDFT", head="cond-softmax",
                   supervisions=("paper", "projection", "learned"), begins_with="fedavg",
                   own_settings=("branch_lr", "cycles", "min_branch_samples"),
                   rate="branch_lr", cap="cycles", unit="cycle", by_branch=True),
)  # fmt: skip

EXPORTS = _by_name(
    ExportEntry("onnx", "fedgrain.exports.onnx_file:write_onnx", "model.onnx", "one ONNX file"),
    ExportEntry("torch", "fedgrain.exports.torch_program:write_torch", "model.pt2",
                "a program of torch.export"),
    ExportEntry("huggingface", "fedgrain.exports.huggingface:write_huggingface", "huggingface",
                "a folder for the Hugging Face Hub", folder=True),
)  # fmt: skip

EXCHANGE_FORMATS = _by_name(
    ExchangeEntry("camtrap-dp", "fedgrain.models.camtrap_dp:as_camtrap_dp", ".csv"),
    ExchangeEntry("label-studio", "fedgrain.models.label_studio:as_label_studio", ".json"),
    ExchangeEntry("speciesnet", "fedgrain.models.speciesnet:as_speciesnet", ".json",
                  ("class", "order", "family", "genus", "species")),
)  # fmt: skip


IMPORTERS = _by_name(
    ImporterEntry("table", "fedgrain.readers.rank_table:read", "tables with a column per rank"),
    ImporterEntry("paths", "fedgrain.readers.path_lines:read", "a/b/c or a > b > c"),
    ImporterEntry("speciesnet", "fedgrain.readers.speciesnet:read",
                  "SpeciesNet's list of classes and its predictions"),
    ImporterEntry("indented", "fedgrain.readers.indented:read", "text indented by depth"),
    ImporterEntry("edges", "fedgrain.readers.edge_list:read", "parent,child with or without a "
                  "header"),
    ImporterEntry("dwca", "fedgrain.readers.darwin_core:read", "Darwin Core archives"),
    ImporterEntry("camtrap-dp", "fedgrain.readers.camtrap:read", "Camtrap DP packages"),
    ImporterEntry("coco", "fedgrain.readers.coco:read",
                  "COCO, COCO Camera Traps, iNaturalist 2021"),
    ImporterEntry("imagefolder", "fedgrain.readers.image_folder:read",
                  "Hugging Face's ImageFolder with metadata"),
    ImporterEntry("hf-dataset", "fedgrain.readers.saved_dataset:read",
                  "a Hugging Face data set saved to disk"),
    ImporterEntry("label-studio", "fedgrain.readers.label_studio:read",
                  "Label Studio's configs and exports"),
    ImporterEntry("folders", "fedgrain.readers.nested_folders:read", "folders in folders"),
)  # fmt: skip


def algorithm(name: str) -> AlgorithmEntry:
    """Return the entry of an algorithm; a user's own counts in rounds and takes any head."""
    return ALGORITHMS.get(name) or AlgorithmEntry(name, name)


def dataset(name: str) -> DatasetEntry:
    """Return the entry of a data set; a user's own has the usual defaults."""
    return DATASETS.get(name) or DatasetEntry(name, name)


def stages(name: str) -> list[AlgorithmEntry]:
    """Return the stages of an algorithm in order, itself last."""
    last = algorithm(name)
    return [*(stages(last.begins_with) if last.begins_with else []), last]


def rounds_axis() -> str:
    """Return the title of an axis that counts rounds, and then what a second stage counts."""
    staged = [entry for entry in ALGORITHMS.values() if entry.begins_with]
    return f"round ({', '.join(f'{entry.name}: then {entry.unit}s' for entry in staged)})"


def net_for(side: int) -> str:
    """Return the paper's net for images whose shorter side has this many pixels."""
    fitting = [entry for entry in NETS.values() if side >= entry.chosen_from]
    return max(fitting, key=lambda entry: entry.chosen_from).name


def check_supervision(
    head: str, supervision: str, error: type[FedgrainError], offered: tuple[str, ...] | None = None
) -> None:
    """Refuse a supervision that does not exist, or that has no meaning for a head.

    ``offered`` are the supervisions of a user's own head.
    """
    if supervision not in SUPERVISIONS:
        raise error(
            f"there is no supervision {supervision!r}; choose one of {', '.join(SUPERVISIONS)}"
        )
    entry = HEADS.get(head)
    if offered is None:
        offered = entry.supervisions if entry else SUPERVISIONS
    if supervision not in offered:
        reason = (entry.refuses if entry else {}).get(supervision, "the head does not define it")
        raise error(
            f"supervision {supervision!r} has no meaning for {head}: {reason}; "
            f"choose {' or '.join(offered)}"
        )


def check_pair(net: str, head: str, error: type[FedgrainError]) -> None:
    """Refuse a net and a head that have no meaning together."""
    reason = NETS[net].refuses.get(head) if net in NETS else None
    if reason:
        raise error(f"{head} has no meaning on {net}: {reason}; choose another head or net")

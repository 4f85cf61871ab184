"""Defaults that depend on other settings; those that also need the data are in `by_data.py`.

Whether a federation is real or simulated is two settings: ``partition`` (whose image is it?) and
``knowledge`` (what does a client know?). Benchmarks are simulated. A user's manifest that names
clients is real, unless a setting asks for a simulation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedgrain import catalogue
from fedgrain.catalogue import HEADS, KNOWLEDGE_GENERATORS

if TYPE_CHECKING:
    from fedgrain.config.config import Config

SIMULATED_PARTITION, SIMULATED_KNOWLEDGE = "iid", "relational"
ALPHA, CLIENTS = 0.9, 10  # of a simulation
JOIN_RATIO = 0.5
LARGEST_SIDE = 64  # of own images in pixels, unless the net is made for larger ones
FEW_SITES = 10  # up to this many real sites, all of them take part in every round
LR, FLAT_LR = 0.05, 0.1  # of a net that is trained; with flat-softmax on own images
FROZEN_LR = 0.1  # of a head on a frozen trunk (docs/trunks.md)
AVERAGED = 10  # rounds, on a frozen trunk and for own images
PATIENCE, OWN_PATIENCE = 10, 30  # the paper's; for own images, where few of them validate


def as_begun(config: Config) -> Config:
    """Return the settings of a run with what older versions did not record: images of 64 pixels."""
    own = catalogue.dataset(config.dataset).own_images and not config.has_trunk
    if own and config.image_size is None:
        return replace(config, image_size=LARGEST_SIDE)
    return config


def left_to_data(config: Config) -> tuple[str, ...]:
    """Return the settings that the data decides if they are not set."""
    if not catalogue.dataset(config.dataset).own_images:
        return ("min_count",)
    return (
        *("partition", "knowledge", "alpha", "clients", "join_ratio", "image_size"),
        *("head", "lr", "responsibilities", "min_count"),
    )


def federation(config: Config) -> dict[str, Any]:
    """Return partition, knowledge, alpha, clients and min_count with their defaults.

    Partition and knowledge are None where the user's data decides. The others are None where they
    have no meaning: knowledge that is given has no alpha, a manifest has its own clients, and
    min_count is of knowledge that is inferred.
    """
    knowledge = config.knowledge or _knowledge(config)
    partition = config.partition or _partition(config, knowledge)
    alpha, clients = config.alpha, config.clients
    if partition is not None and knowledge is not None:
        skewed = knowledge != "inferred" and not knowledge.endswith(".json")
        alpha = (ALPHA if alpha is None else alpha) if skewed else None
        clients = None if partition == "manifest" else clients or CLIENTS
    return {
        "partition": partition,
        "knowledge": knowledge,
        "alpha": alpha,
        "clients": clients,
        "min_count": config.min_count if knowledge in (None, "inferred") else None,
    }


def _knowledge(config: Config) -> str | None:
    """Return the default of knowledge: a generator if the settings speak of a simulation."""
    own = catalogue.dataset(config.dataset).own_images
    asked = config.alpha is not None or config.zero_shot or config.partition in ("iid", "dirichlet")
    if not own or asked or (config.clients is not None and config.partition is None):
        return SIMULATED_KNOWLEDGE
    return "inferred" if config.partition == "manifest" else None


def _partition(config: Config, knowledge: str | None) -> str | None:
    own = catalogue.dataset(config.dataset).own_images
    if not own or knowledge in KNOWLEDGE_GENERATORS or config.clients is not None:
        return SIMULATED_PARTITION
    return None


def join_ratio(config: Config, sites: int | None = None) -> float | None:
    """Return the share of clients in a round: all of a few real sites, half of a simulation.

    None for real sites of unknown number.
    """
    real = catalogue.dataset(config.dataset).own_images and config.partition in (None, "manifest")
    if not real:
        return JOIN_RATIO
    return None if sites is None else 1.0 if sites <= FEW_SITES else JOIN_RATIO


def rates(config: Config) -> dict[str, Any]:
    """Return the learning rate and how labels, rounds and patience count (docs/decisions.md).

    There is no rate while the data has not decided on the head. On own images labels that stand for
    sets of leaves are shared out once a round, where the head can.
    """
    chosen, own = head(config), catalogue.dataset(config.dataset).own_images
    frozen = config.has_trunk and config.train in (None, "head")
    lr = None if chosen is None else FLAT_LR if own and chosen == "flat-softmax" else LR
    in_cycles = catalogue.algorithm(config.algorithm).by_branch  # each trains every branch
    return {
        "lr": FROZEN_LR if frozen else lr,
        "average_rounds": AVERAGED if frozen or own else 1,
        "patience": OWN_PATIENCE if own and not in_cycles else PATIENCE,
        "responsibilities": _responsibilities(config, chosen) if own else "step",
    }


def _responsibilities(config: Config, chosen: str | None) -> str | None:
    read_as = config.supervision or supervision(config)
    if chosen is None or read_as is None:
        return None
    entry = HEADS.get(chosen)
    shared = entry is not None and entry.responsibilities and read_as in ("marginal", "projection")
    return "round" if shared else "step"


def head(config: Config) -> str | None:
    """Return the default head, the given one if there is one.

    That is flat-softmax where sites' own labels are read as what they tell about classes: it
    was the best, or as good as any, wherever we compared (docs/decisions.md). Under the paper's
    rule it would drop every coarse label, so elsewhere it is cond-softmax. None while the knowledge
    is not decided.
    """
    if config.head is not None:
        return config.head
    needed = catalogue.algorithm(config.algorithm).head
    if needed is not None or not catalogue.dataset(config.dataset).own_images:
        return needed or "cond-softmax"
    knowledge = federation(config)["knowledge"]
    if knowledge is None:
        return None
    given = knowledge == "inferred" or knowledge.endswith(".json")
    return "flat-softmax" if given and config.supervision != "paper" else "cond-softmax"


def supervision(config: Config) -> str | None:
    """Return how coarse labels are read by default: what is known about labellers is used.

    `projection` where the user says what clients know; `learned` where nobody does, as what was
    inferred may be wrong (method, section 11); `paper` for simulations. Where the head or the
    algorithm cannot read labels so, or it is not known (a head of the user's own): `marginal`, else
    `paper`. None while the knowledge is not decided.
    """
    knowledge, chosen = federation(config)["knowledge"], head(config)
    if knowledge is None:
        return None
    entry = HEADS.get(chosen or "")
    if knowledge in KNOWLEDGE_GENERATORS or entry is None:
        return "paper"
    wanted = ("learned" if knowledge == "inferred" else "projection", "marginal")
    able = set(catalogue.algorithm(config.algorithm).supervisions)
    able &= set(entry.supervisions)
    return next((name for name in wanted if name in able), "paper")

"""Which settings of a run go together, and which have no meaning (method, section 10)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fedgrain import catalogue
from fedgrain.catalogue import HEADS, NETS
from fedgrain.config.defaults import federation, head, supervision
from fedgrain.errors import ConfigError

if TYPE_CHECKING:
    from fedgrain.config.config import Config

_LARGE = float(2**31)
_RANGES: dict[str, tuple[float, float]] = {
    "alpha": (0, 1), "laziness": (0, 1), "clients": (1, _LARGE), "join_ratio": (1e-9, 1),
    "rounds": (1, _LARGE), "cycles": (0, _LARGE), "epochs": (1, _LARGE), "batch": (1, _LARGE),
    "lr": (0, 1e6), "branch_lr": (0, 1e6), "server_lr": (0, 1e6), "momentum": (0, 1),
    "server_momentum": (0, 1), "weight_decay": (0, 1e6), "proximal": (0, 1e6),
    "concentration": (1e-6, 1e6), "patience": (1, _LARGE), "min_delta": (0, 1),
    "validation_share": (0.001, 0.999), "min_clients": (1, _LARGE), "min_count": (1, _LARGE),
    "max_children": (2, _LARGE), "image_size": (1, 10_000), "images_per_class": (1, _LARGE),
    "max_unreadable": (0, 1), "margin_size": (0, 1e6),
    "client_time_limit": (1e-3, _LARGE), "min_branch_samples": (1, _LARGE),
    "seed": (0, float(2**63 - 1)), "sample_seed": (0, float(2**63 - 1)),
    "hidden": (1, 4096), "views": (1, 1000),
    "label_smoothing": (0, 0.999), "sam": (0, 1e3), "step_rounds": (1, _LARGE),
    "ancestor_terms": (0, 1e3), "ancestor_decay": (0, 1e3), "restricted_softmax": (0, 1),
    "gce": (0, 1), "logit_calibration": (0, 1e3), "step_factor": (0, 1),
    "only_client": (0, _LARGE), "lazy_labels": (0, 1), "average_rounds": (1, _LARGE),
}  # fmt: skip


def check_settings(config: Config) -> None:
    """Refuse values out of range, and settings that contradict each other."""
    for name, (low, high) in _RANGES.items():
        value = getattr(config, name)
        if value is not None and not low <= value <= high:
            raise ConfigError(f"{name} is {value}, but must lie between {low:g} and {high:g}")
    _check_trunk(config)
    _check_zero_shot_and_bounds(config)
    _check_algorithm(config)
    _check_schedule(config)
    read_as = config.supervision or supervision(config)
    if config.laziness and "projection" not in (read_as, config.first_stage_supervision):
        raise ConfigError(f"laziness is {config.laziness}, but only supervision projection uses it")
    _check_head(config)
    if config.wrong_labels is not None and not re.fullmatch(
        r"siblings:(0?\.\d+|0|1)|shifted|spelling", config.wrong_labels
    ):
        raise ConfigError(
            f"wrong_labels is {config.wrong_labels!r}, but must be siblings:SHARE with a share "
            "from 0 to 1, shifted or spelling"
        )
    if config.infer_knowledge and not config.simulated:
        raise ConfigError(
            "infer_knowledge is for simulations, where a generator decides what clients know; set "
            "knowledge to inferred for your own data"
        )
    if config.mixed_clients and not config.simulated:
        raise ConfigError("mixed_clients is for simulations; leave it away for your own data")
    own = federation(config)
    if config.simulated and own["partition"] != "manifest":  # a manifest has its own clients
        highest = 1 - 1 / own["clients"]
        if own["alpha"] > highest + 1e-9:
            raise ConfigError(
                f"alpha is {own['alpha']}, but with {own['clients']} clients it must lie between 0 "
                f"and {highest:g}: every leaf class must be known to someone"
            )


def check_server(config: Config) -> None:
    """Refuse settings of the server's optimiser without one; Flower's strategies bring their own.

    So this is no part of ``check_settings``.
    """
    if config.server_optimizer == "none" and (config.server_lr, config.server_momentum) != (1, 0):
        raise ConfigError(
            "server_lr and server_momentum need an optimizer at the server; choose one with "
            "server_optimizer, or leave them out"
        )


def _check_schedule(config: Config) -> None:
    """Refuse settings of a schedule that another one does not use."""
    for name in ("step_rounds", "step_factor"):
        if config.schedule != "step" and getattr(config, name) != getattr(type(config), name):
            raise ConfigError(f"{name} is for schedule step, not for {config.schedule}")
    if config.algorithm == "scaffold" and config.step_factor == 0:
        raise ConfigError(
            "step_factor is 0, but scaffold divides by the learning rate of every round; set it "
            "above 0"
        )


def _check_trunk(config: Config) -> None:
    """Refuse settings of a pretrained trunk where there is none, and what it cannot do."""
    if config.net_weights is not None and (config.net is None or config.net in NETS):
        raise ConfigError(
            f"net_weights is for a pretrained trunk, net timm:NAME or your own, not for "
            f"{config.net or 'the default net'}"
        )
    if not config.has_trunk:
        usual = type(config)
        for name in ("train", "hidden", "views", "net_weights_sha256", "embed_trunk"):
            if getattr(config, name) != getattr(usual, name):
                raise ConfigError(
                    f"{name} is for a pretrained trunk; set net to timm:NAME, or give net_weights"
                )
        return
    if config.train is not None and not re.fullmatch(r"head|all|blocks:[1-9]\d{0,3}", config.train):
        raise ConfigError(f"train is {config.train!r}, but must be head, blocks:N or all")
    if config.crop_and_flip and config.train != "all":
        raise ConfigError(
            "crop_and_flip changes images, but a frozen trunk sees each only once; set views to "
            "train on several views of each image, or train all"
        )
    if config.views > 1 and config.train == "all":
        raise ConfigError("views are of a frozen trunk; with train all set crop_and_flip")


def _check_head(config: Config) -> None:
    """Refuse settings that belong to another head."""
    chosen, read_as = head(config), config.supervision or supervision(config)
    for entry in HEADS.values():
        changed = any(
            getattr(config, name) != getattr(type(config), name) for name in entry.settings
        )
        if changed and entry.name != chosen:
            raise ConfigError(
                f"{' and '.join(entry.settings)} belong to the head {entry.name}, "
                f"not to {chosen or 'the default one'}"
            )
    if chosen is None or read_as is None:
        return  # what is not set the data will decide
    _check_terms(config, chosen)
    _check_rivals(config, chosen, read_as)
    able = [entry.name for entry in HEADS.values() if entry.responsibilities]
    reading = ("marginal", "projection", "learned")
    if config.responsibilities == "round" and (chosen not in able or read_as not in reading):
        raise ConfigError(
            f"responsibilities once a round are for {' or '.join(able)} under marginal, "
            f"projection or learned, not for {chosen} under {read_as}"
        )
    if config.labeller == type(config).labeller:
        return
    if read_as != "learned":
        raise ConfigError(
            f"labeller {config.labeller} is for supervision learned, not for {read_as}"
        )
    if chosen not in able:
        raise ConfigError(
            f"labeller {config.labeller} needs the head {' or '.join(able)}, not {chosen}"
        )


def _check_terms(config: Config, chosen: str) -> None:
    """Refuse terms beside the likelihood that the head has no probabilities for."""
    spread = [entry.name for entry in HEADS.values() if "projection" in entry.supervisions]
    if config.label_smoothing and chosen not in spread:
        raise ConfigError(
            f"label_smoothing spreads a label over the leaves, which {chosen} does not; "
            f"choose {' or '.join(spread)}, or set it to 0"
        )
    if config.gce and config.head not in spread:
        raise ConfigError(
            f"gce needs a likelihood, which {config.head} has not; choose {' or '.join(spread)}, "
            "or set it to 0"
        )
    able = [entry.name for entry in HEADS.values() if entry.responsibilities]
    if config.ancestor_terms and chosen not in able:
        raise ConfigError(f"ancestor_terms are for {' or '.join(able)}, not for {chosen}")
    if config.ancestor_decay != 1 and not config.ancestor_terms:
        raise ConfigError("ancestor_decay has no meaning without ancestor_terms; set these too")


def _check_rivals(config: Config, chosen: str, read_as: str) -> None:
    """Refuse FedRS and FedLC where labels are no classes with a score each."""
    asked = [config.restricted_softmax is not None, config.logit_calibration > 0]
    if all(asked):
        raise ConfigError("restricted_softmax and logit_calibration exclude each other; choose one")
    if not any(asked):
        return
    name = "restricted_softmax" if asked[0] else "logit_calibration"
    if chosen != "flat-softmax" or read_as != "paper":
        raise ConfigError(
            f"{name} is for flat-softmax under paper, not for {chosen} under {read_as}"
        )
    for term in ("label_smoothing", "ancestor_terms"):
        if getattr(config, term):
            raise ConfigError(
                f"{name} changes the probabilities of the leaves, which {term} would take "
                f"unchanged in the same loss; set {term} to 0"
            )


def _check_algorithm(config: Config) -> None:
    """Refuse a head or a supervision that the algorithm cannot train."""
    entry = catalogue.algorithm(config.algorithm)
    if entry.head not in (None, head(config)):
        raise ConfigError(f"{entry.name} needs the head {entry.head}, not {config.head}")
    if config.supervision is not None and config.supervision not in entry.supervisions:
        raise ConfigError(
            f"{entry.name} takes supervision {' or '.join(entry.supervisions)}, "
            f"not {config.supervision}"
        )
    if config.first_stage_supervision is not None and entry.begins_with is None:
        raise ConfigError(
            f"first_stage_supervision is for algorithms of two stages, not for {entry.name}"
        )


def _check_zero_shot_and_bounds(config: Config) -> None:
    """Refuse what has no meaning for zero-shot and for the bounds (method, section 10)."""
    own = federation(config)
    if config.zero_shot and config.simulated and own["alpha"] != 0:
        raise ConfigError(f"zero_shot needs alpha 0, not {own['alpha']}")
    if config.zero_shot and not config.simulated:
        raise ConfigError(
            f"zero_shot lets every client know every seen class: knowledge {config.knowledge} "
            "has no meaning with it"
        )
    if config.pooled and config.only_client is not None:
        raise ConfigError("pooled and only_client exclude each other; choose one")
    if config.pooled and config.validation == "clients":
        raise ConfigError("pooled has no clients to validate; set validation to server")

"""The pretrained trunk that a config names: where its weights are, and how it is fed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedgrain import catalogue
from fedgrain.config.config import Config
from fedgrain.trunks import TrunkSpec, describe, find_weights


def trunk_of(config: Config) -> TrunkSpec | None:
    """Return the trunk of a complete config, None if its net is trained from nothing.

    Weights with another SHA-256 than the config's are refused.
    """
    if not config.has_trunk:
        return None
    assert config.net is not None and config.train is not None  # a complete config
    return describe(
        config.net,
        find_weights(config.net, config.net_weights, config.net_weights_sha256),
        train=config.train,
        hidden=config.hidden,
        size=config.image_size,
        cropped=catalogue.dataset(config.dataset).resizable,
    )


def with_weights_hash(config: Config) -> Config:
    """Return the config with the SHA-256 of its trunk's weights; refuse weights with another."""
    if not config.has_trunk:
        return config
    assert config.net is not None
    found = find_weights(config.net, config.net_weights, config.net_weights_sha256)
    return replace(config, net_weights_sha256=found.sha256)


def decoding_options(config: Config, trunk: TrunkSpec | None) -> dict[str, Any]:
    """Return how images are decoded: the options of a data set's loader.

    With a trunk, photographs are decoded as large as it resizes them, and in its way. Data of one
    fixed size stays as it is: the trunk's preprocessing resizes it.
    """
    if not config.has_trunk:
        return {} if config.image_size is None else {"size": config.image_size}
    if not catalogue.dataset(config.dataset).resizable:
        return {}
    found = trunk or trunk_of(config)
    assert found is not None
    how = found.preprocessing
    return {"size": how.resized, "interpolation": how.interpolation}

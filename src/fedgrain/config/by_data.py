"""Defaults that depend on the data: real or simulated clients, who joins, the size of images.

They are filled in before a run starts and recorded in its ``config.toml``, so a resumed run has the
same ones.
"""

from __future__ import annotations

from dataclasses import replace

from fedgrain import catalogue
from fedgrain.catalogue import NETS
from fedgrain.config import defaults
from fedgrain.config.config import Config
from fedgrain.folders.survey import Survey, survey_folder


def completed(config: Config, before: Config | None = None) -> Config:
    """Return the config with every default filled in.

    ``before`` is the config of a run that is to continue: of a user's own images, what the new
    config leaves to the data is then as it was. Reads the manifest and the headers of some images
    if something depends on them.
    """
    if before is not None:  # begun when other defaults held
        begun = {name: getattr(before, name) for name in defaults.rates(before)}
        config = replace(config, **{n: v for n, v in begun.items() if getattr(config, n) is None})
    config = config.complete()
    if before is not None and before.dataset == config.dataset:
        names = defaults.left_to_data(config)
        kept = {name: getattr(before, name) for name in names if getattr(config, name) is None}
        config = replace(config, **kept).complete()
    if not catalogue.dataset(config.dataset).own_images:
        return config
    sized = config.image_size is not None or config.has_trunk  # a trunk has a size of its own
    if sized and None not in (config.partition, config.knowledge, config.join_ratio):
        return config
    found = survey_folder(config.data_root, manifest=config.manifest, taxonomy=config.taxonomy)
    if config.partition is None:
        partition = "manifest" if found.clients else defaults.SIMULATED_PARTITION
        config = replace(config, partition=partition).complete()
    return replace(
        config,
        join_ratio=config.join_ratio or defaults.join_ratio(config, len(found.clients)),
        image_size=config.image_size if sized else _image_size(config.net, found),
    )


def _image_size(net: str | None, found: Survey) -> int:
    """Return the images' own size, within what the net takes; a net of one's own gets 64 pixels."""
    if found.side is None or (net is not None and net not in NETS):
        return defaults.LARGEST_SIDE
    entry = NETS[net] if net else None
    smallest = entry.smallest_side if entry else min(e.smallest_side for e in NETS.values())
    largest = max(defaults.LARGEST_SIDE, entry.usual_side if entry else 0)
    return min(max(found.side, smallest), largest)

"""The images that ``fedgrain evaluate`` scores: the run's own, another data set, or a manifest."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedgrain.catalogue import dataset
from fedgrain.errors import DataError

if TYPE_CHECKING:
    from fedgrain.images.images import LabelledImages
    from fedgrain.models.trained_model import TrainedModel

_OTHER_DATA = (
    "give it the same data, or name the images to score with --manifest CSV or --data-root DIR"
)
_DEFAULT_SPLIT = "test"


@dataclass(frozen=True)
class Scored:
    """Images, which of their splits is scored, and what both are called."""

    data: LabelledImages
    split: str
    spoken: str


def images_to_score(args: argparse.Namespace, model: TrainedModel) -> Scored:
    """Return the images the arguments name; of a manifest without splits, all of them."""
    from fedgrain.folders.manifest import names_splits

    if args.manifest is None:
        data, name = _data_set(args, model)
    else:
        data, name = _listed(args, model), str(args.manifest)
        if args.split is None and not names_splits(args.manifest):
            return Scored(data, "train", f"{name}, all rows")  # a row without a split is that
    split = _DEFAULT_SPLIT if args.split is None else args.split
    if not data.split_counts.get(split):
        found = ", ".join(name for name, count in data.split_counts.items() if count)
        raise DataError(
            f"{name}: no image has the split {split!r}; choose one with --split: {found}"
        )
    return Scored(data, split, f"{name}, split {split}")


def _listed(args: argparse.Namespace, model: TrainedModel) -> LabelledImages:
    """Read a manifest by the model's own tree: a site needs nothing but the model's two files."""
    from fedgrain.folders.folder import load_folder

    if args.dataset or args.data_root:
        raise DataError("--manifest names the images itself; leave out --dataset, --data-root")
    tree, side = model.full_taxonomy, model.image_shape[0]
    return load_folder(manifest=args.manifest, taxonomy=tree, size=side)


def _data_set(args: argparse.Namespace, model: TrainedModel) -> tuple[LabelledImages, str]:
    """Return the run's own data set, as it saw it, or the one that is named; and its name."""
    from fedgrain.config.config import DATA_PLACES
    from fedgrain.errors import RunError
    from fedgrain.pages.redo import with_places_found
    from fedgrain.plugins import check_trust
    from fedgrain.preparation.prepare import as_used, load_images
    from fedgrain.runs.run_folder import RunFolder

    place = RunFolder(args.folder)
    config = with_places_found(place.read_config(), place)
    if args.dataset:
        reading = ("image_size", "images_per_class", "sample_seed", "max_unreadable")
        others: dict[str, Any] = dict.fromkeys((*DATA_PLACES, *reading))  # of its own data set
        config = replace(config, dataset=args.dataset, **others)
    else:
        named = {"dataset": config.dataset}
        check_trust(named, place.config, args.trust_code, RunError)
    if args.data_root:
        config = replace(config, data_root=args.data_root)
    if model.trunk is None and dataset(config.dataset).resizable and config.image_size is None:
        config = replace(config, image_size=model.image_shape[0])
    data = load_images(config, model.trunk)
    if not (args.dataset or args.data_root):
        place.check_data(as_used(config, data).fingerprint, _OTHER_DATA)
    return data, config.dataset

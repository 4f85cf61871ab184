"""``fedgrain calibrate``: how far a model's answers can be trusted, from images with labels."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.terminal.arguments import add_json, add_net_weights, add_trust, print_json
from fedgrain.text import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedgrain.calibration.record import Calibration
    from fedgrain.images.images import LabelledImages
    from fedgrain.models.trained_model import TrainedModel

_OTHER_DATA = (
    "its validation images may be among those it was trained on: give it the same data, or "
    "calibrate on images of their own with --manifest CSV"
)


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "calibrate",
        help="calibrate a model on images with labels that it was not trained on",
        description="Fit the temperature of a finished run's model and count its scores, so that "
        "predict can give guarantees. A run does this by itself, on its validation images; "
        "images of their own make the guarantee strict. Nothing of them is kept but counts.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "--manifest",
        type=Path,
        metavar="CSV",
        help="images with labels, coarse ones too (path,label[,split]); rows of the split train "
        "are left out; default: the run's validation",
    )
    parser.add_argument(
        "--per-depth",
        action="store_true",
        help="fit a temperature for each depth of the taxonomy where that measures better; it may "
        "change which leaf is the likeliest",
    )
    add_net_weights(parser)
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> None:
    """Calibrate, write the model's description again, and say what came out."""
    from fedgrain.arithmetic import one_thread
    from fedgrain.models.model_folder import load
    from fedgrain.runs.calibrate import keep_calibration

    model = load(args.folder, trust_code=args.trust_code, net_weights=args.net_weights)
    with one_thread():
        found = _calibration(args, model)
    keep_calibration(args.folder, model, found)
    facts = found.facts(model.taxonomy)
    if args.json:
        print_json(facts)
        return
    print(f"calibrated on {facts['images']} images, {facts['coarse']} of them with a coarse label")
    print(_spoken(found))
    print(f"guarantees up to {facts['highest_guarantee']:.4g} can be given")


def _spoken(found: Calibration) -> str:
    if isinstance(found.temperature, tuple):
        return f"temperature per depth {', '.join(f'{t:.3f}' for t in found.temperature)}"
    return f"temperature {found.temperature:.3f}"


def _calibration(args: argparse.Namespace, model: TrainedModel) -> Calibration:
    from fedgrain.errors import RunError
    from fedgrain.folders.folder import load_folder
    from fedgrain.pages.redo import with_places_found
    from fedgrain.plugins import check_trust
    from fedgrain.preparation.prepare import prepare
    from fedgrain.runs.calibrate import calibration_by, on_validation
    from fedgrain.runs.run_folder import RunFolder

    if args.manifest is not None:
        tree, side = model.full_taxonomy, model.image_shape[0]
        data = load_folder(manifest=args.manifest, taxonomy=tree, size=side)
        chosen = _not_for_training(args.manifest, data)
        found = calibration_by(model, data, chosen, per_depth=args.per_depth)
    else:
        place = RunFolder(args.folder)
        config = with_places_found(place.read_config().complete(), place)
        check_trust(config.settings(), place.config, args.trust_code, RunError)
        prepared = prepare(config)
        place.check_data(prepared.data.fingerprint, _OTHER_DATA)
        found = on_validation(prepared.federation, per_depth=args.per_depth)(model)
    if found is None:
        raise RunError(f"{args.manifest or args.folder}: there are no images to calibrate on")
    return found


def _not_for_training(manifest: Path, data: LabelledImages) -> NDArray[np.int64]:
    """Return the images that a manifest does not give to training; all if it names no splits."""
    import numpy as np

    from fedgrain.errors import DataError
    from fedgrain.folders.manifest import names_splits

    train = data.split_counts.get("train", 0)
    if not train or not names_splits(manifest):
        return np.arange(len(data))
    if train == len(data):
        raise DataError(
            f"{manifest}: every image has the split train, and a model must not be calibrated on "
            "what it was trained on; give images of their own, or leave out the column split"
        )
    said = f"{manifest}: left out {counted(train, 'image')} of the split train"
    print(said, file=sys.stderr)
    return np.flatnonzero(data.splits != data.split_names.index("train"))

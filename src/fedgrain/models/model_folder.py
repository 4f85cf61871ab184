"""The model in the folder of a finished run: built from a description, or loaded from its files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedgrain.calibration.record import Calibration
from fedgrain.checked_json import read_checked_json
from fedgrain.engines import ModelSpec
from fedgrain.errors import FedgrainError, RunError
from fedgrain.federated.averaging import State
from fedgrain.heads import DecoupledModel, Head, build_head, decouple
from fedgrain.images.images import Normalisation
from fedgrain.models.trained_model import DESCRIPTION, FORMAT, HUB_FILES, WEIGHTS, TrainedModel
from fedgrain.models.trunk_place import here
from fedgrain.plugins import Trust, check_trust
from fedgrain.taxonomy import Taxonomy, from_json
from fedgrain.tensor_files import read_tensors
from fedgrain.trunks import TrunkSpec, build_trained, trunk_from

_MOST_PIXELS = 4096  # of a side of an image, the same limit as in decoding


def load(
    path: str | Path, *, trust_code: Trust = False, net_weights: str | None = None
) -> TrainedModel:
    """Load the model of a finished run; the folder may come from another machine.

    A net or head named ``module:callable`` is code that is imported and run. It is refused unless
    ``trust_code`` is true or contains its name. ``net_weights`` says where the weights of its
    pretrained trunk are, if they are neither in the folder nor where they were in training.
    """
    place = description_of(path)
    about = read_checked_json(place)
    if about.get("format") != FORMAT:
        raise RunError(f"{place}: not a model of this version of fedgrain")
    check_trust({n: about.get(n) for n in ("net", "head")}, place, trust_code, RunError)
    try:
        return _built(place, about, net_weights)
    except FedgrainError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [""])[0]  # torch adds a stack of its own
        raise RunError(f"{place}: damaged ({reason}); copy the run folder again") from None


def description_of(path: str | Path) -> Path:
    """Return the file that describes the model in a folder of ours, or of the Hugging Face Hub."""
    for name in (DESCRIPTION, HUB_FILES[0]):
        if (place := Path(path, name)).exists():
            return place
    raise RunError(f"{path}: no finished run here (there is no {DESCRIPTION})")


def _built(place: Path, about: dict[str, Any], net_weights: str | None) -> TrainedModel:
    weights = WEIGHTS if place.name == DESCRIPTION else HUB_FILES[1]
    state, _ = read_tensors(place.with_name(weights))
    taxonomy = from_json(about["taxonomy"], f"{place}, taxonomy")
    full = from_json(about["full_taxonomy"], f"{place}, full taxonomy")
    settings = dict(about.get("head_settings", {}))  # older models have none
    head = build_head(about["head"], taxonomy, **settings)
    height, width, channels = about["image_shape"]
    shape = (height, width, channels)
    if not all(type(side) is int and 1 <= side <= _MOST_PIXELS for side in shape):
        raise ValueError(f"image_shape must have three whole numbers from 1 to {_MOST_PIXELS}")
    normalisation = _normalisation(about["mean"], about["deviation"], channels=shape[2])
    trunk = None if about.get("trunk") is None else trunk_from(about["trunk"])
    if trunk is not None:
        if trunk.net != about["net"]:  # whose code was trusted, if it is code
            raise ValueError("its trunk is not its net")
        trunk = here(trunk, place.parent, net_weights)
    net = _model_net(about["net"], trunk, head, shape, state, branches=about["branches"])
    kept = about.get("calibration")  # older models have none
    calibration = None if kept is None else Calibration.read(kept, taxonomy)
    return TrainedModel(
        taxonomy,
        full,
        normalisation,
        shape,
        about["net"],
        about["head"],
        settings,
        head,
        net,
        trunk,
        calibration,
    )


def _normalisation(mean: Any, deviation: Any, channels: int) -> Normalisation:
    means, deviations = (tuple(map(float, values)) for values in (mean, deviation))
    if len(means) != channels or len(deviations) != channels or not all(map(math.isfinite, means)):
        raise ValueError(f"mean and deviation are not {channels} finite numbers each")
    if not all(0 < value < math.inf for value in deviations):
        raise ValueError("deviation has a number that is not greater than 0")
    return Normalisation(means, deviations)


@dataclass(frozen=True, eq=False)
class ModelDescription:
    """A model without its weights: all that can be known of it without any image."""

    spec: ModelSpec
    taxonomy: Taxonomy  # H
    full_taxonomy: Taxonomy
    image_shape: tuple[int, int, int]  # height, width, channels
    normalisation: Normalisation

    def with_weights(self, weights: State, *, by_branch: bool) -> TrainedModel:
        """Return the trained model, on the CPU; ``by_branch`` if it has a net for each branch."""
        spec, shape = self.spec, self.image_shape
        head = build_head(spec.head, self.taxonomy, **spec.head_settings)
        return TrainedModel(
            taxonomy=self.taxonomy,
            full_taxonomy=self.full_taxonomy,
            normalisation=self.normalisation,
            image_shape=shape,
            net_name=spec.net,
            head_name=spec.head,
            head_settings=spec.head_settings,
            head=head,
            net=_model_net(spec.net, spec.trunk, head, shape, weights, branches=by_branch),
            trunk=spec.trunk,
        )


def _model_net(
    name: str,
    trunk: TrunkSpec | None,
    head: Head,
    image_shape: tuple[int, int, int],
    state: State,
    *,
    branches: bool,
) -> nn.Module:
    """Build a net, or one per branch, and load the weights."""
    generator = torch.Generator().manual_seed(0)  # the weights are replaced at once
    outputs = head.num_outputs
    net = build_trained(name, trunk, outputs, generator=generator, image_shape=image_shape)
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if branches:
        net = DecoupledModel(head.taxonomy, decouple(net, head))  # type: ignore[arg-type]
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise RunError(f"the weights do not fit the net {name}: {first}") from None
    return net

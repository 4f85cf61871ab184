"""A trained model that predicts on its own: weights, taxonomy and preprocessing in one folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgrain.data.decode import decode_image
from fedgrain.data.images import Normalisation
from fedgrain.engines import ModelSpec
from fedgrain.errors import DataError, FedgrainError, RunError
from fedgrain.federated import ImageSource
from fedgrain.federated.averaging import State
from fedgrain.heads import DecoupledModel, Head, build_head, decouple
from fedgrain.heads.chunks import samples_at_once
from fedgrain.nets import build_net
from fedgrain.plugins import Trust, check_trust
from fedgrain.runs.run_folder import RunFolder, read_checked_json, write_checked_json
from fedgrain.runs.tensor_files import read_tensors, write_tensors
from fedgrain.scoring.rules import node_log_probs, predict
from fedgrain.taxonomy import Taxonomy, from_json, to_json

FORMAT = "fedgrain-model-1"
_MOST_PIXELS = 4096  # of a side of an image, the same limit as in decoding


@dataclass(frozen=True)
class Prediction:
    """The path from the root to the predicted node, with the probability of each level."""

    ids: tuple[str, ...]
    names: tuple[str, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """The model of a run, ready to predict."""

    taxonomy: Taxonomy  # H
    full_taxonomy: Taxonomy
    normalisation: Normalisation
    image_shape: tuple[int, int, int]
    net_name: str  # as the config names them: the user's own are module:callable
    head_name: str
    head_settings: Mapping[str, Any]
    head: Head
    net: nn.Module | DecoupledModel

    def batch(self, images: NDArray[np.uint8]) -> Tensor:
        """Check and normalise images [images, height, width, channels]."""
        images = np.asarray(images)
        if images.ndim != 4 or images.dtype != np.uint8 or images.shape[1:] != self.image_shape:
            raise RunError(
                f"the model takes uint8 images of shape {list(self.image_shape)}, "
                f"not {images.dtype} {list(images.shape[1:])}"
            )
        batch = ImageSource(images, self.normalisation).batch(np.arange(len(images)))
        return batch.to(next(self.net.parameters()).device)

    def node_log_probs(self, images: NDArray[np.uint8]) -> Tensor:
        """Return log P of every node of H [images, nodes]."""
        return torch.cat(list(self.log_prob_blocks(images, np.arange(len(images)))))

    def log_prob_blocks(
        self, images: NDArray[np.uint8], chosen: NDArray[np.int64]
    ) -> Iterator[Tensor]:
        """Return log P of every node for the chosen images, a block of images at a time.

        For many images and a large tree the whole table may be larger than memory.
        """
        for block in self.blocks(chosen):
            yield self._block_log_probs(self.batch(images[block]))

    def blocks(self, chosen: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Divide image numbers into blocks; at least one block."""
        size = samples_at_once(len(self.taxonomy))
        for start in range(0, max(1, len(chosen)), size):
            yield chosen[start : start + size]

    def _block_log_probs(self, batch: Tensor) -> Tensor:
        if isinstance(self.net, DecoupledModel):
            return self.net.node_log_probs(batch)
        return node_log_probs(self.net, self.head, batch)

    def predict(
        self, images: NDArray[np.uint8], rule: str = "leaf", threshold: float | None = None
    ) -> list[Prediction]:
        """Predict a node for each image, by the rules of section 7."""
        found = []
        for table in self.log_prob_blocks(images, np.arange(len(images))):
            nodes = predict(table, self.taxonomy, rule, threshold, self.full_taxonomy)
            found += [self._along(row, node) for row, node in zip(table, nodes, strict=True)]
        return found

    def _along(self, log_probs: Tensor, node: int) -> Prediction:
        path = self.taxonomy.path(int(node)).tolist()
        return Prediction(
            tuple(self.taxonomy.ids[n] for n in path),
            tuple(self.taxonomy.names[n] for n in path),
            tuple(log_probs[path].exp().tolist()),
        )

    def read_images(self, paths: Sequence[str | Path]) -> NDArray[np.uint8]:
        """Decode image files as the model's data set was decoded."""
        height, width, _ = self.image_shape
        if height != width:
            raise RunError(f"the model takes {height} x {width} images; give them as arrays")
        images = np.empty((len(paths), *self.image_shape), np.uint8)
        for number, path in enumerate(paths):
            try:
                images[number] = decode_image(path, height)
            except FileNotFoundError:
                raise DataError(f"{path}: there is no such file") from None
            except Exception as error:  # decoders raise anything on damaged files
                reason = str(error).replace(repr(str(path)), "").strip() or type(error).__name__
                raise DataError(f"{path}: not a readable image ({reason})") from None
        return images

    # files

    def save(self, folder: RunFolder, state: dict[str, Tensor]) -> None:
        """Write the files that :func:`load` reads."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "net": self.net_name,
            "head": self.head_name,
            "head_settings": dict(self.head_settings),
            "branches": isinstance(self.net, DecoupledModel),
            "image_shape": list(self.image_shape),
            "mean": list(self.normalisation.mean),
            "deviation": list(self.normalisation.deviation),
            "taxonomy": to_json(self.taxonomy),
            "full_taxonomy": to_json(self.full_taxonomy),
        }
        write_tensors(folder.best, state, {"format": FORMAT})
        write_checked_json(folder.model, content)


def load(path: str | Path, *, trust_code: Trust = False) -> TrainedModel:
    """Load the model of a finished run; the folder may come from another machine.

    A net or head named ``module:callable`` is code that is imported and run. It is refused unless
    ``trust_code`` is true or contains its name.
    """
    folder = RunFolder(path)
    if not folder.model.exists():
        raise RunError(f"{path}: no finished run here (there is no {folder.model.name})")
    about = read_checked_json(folder.model)
    if about.get("format") != FORMAT:
        raise RunError(f"{folder.model}: not a model of this version of fedgrain")
    check_trust({n: about.get(n) for n in ("net", "head")}, folder.model, trust_code, RunError)
    try:
        return _built(folder, about)
    except FedgrainError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [""])[0]  # torch adds a stack of its own
        raise RunError(f"{folder.model}: damaged ({reason}); copy the run folder again") from None


def _built(folder: RunFolder, about: dict[str, Any]) -> TrainedModel:
    state, _ = read_tensors(folder.best)
    taxonomy = from_json(about["taxonomy"], f"{folder.model}, taxonomy")
    full = from_json(about["full_taxonomy"], f"{folder.model}, full taxonomy")
    settings = dict(about.get("head_settings", {}))  # older models have none
    head = build_head(about["head"], taxonomy, **settings)
    height, width, channels = about["image_shape"]
    shape = (height, width, channels)
    if not all(type(side) is int and 1 <= side <= _MOST_PIXELS for side in shape):
        raise ValueError(f"image_shape must have three whole numbers from 1 to {_MOST_PIXELS}")
    normalisation = _normalisation(about["mean"], about["deviation"], channels=shape[2])
    net = _model_net(about["net"], head, shape, state, branches=about["branches"])
    return TrainedModel(
        taxonomy, full, normalisation, shape, about["net"], about["head"], settings, head, net
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
            net=_model_net(spec.net, head, shape, weights, branches=by_branch),
        )


def _model_net(
    name: str, head: Head, image_shape: tuple[int, int, int], state: State, *, branches: bool
) -> nn.Module:
    """Build a net, or one per branch, and load the weights."""
    generator = torch.Generator().manual_seed(0)  # the weights are replaced at once
    net = build_net(name, head.num_outputs, generator=generator, image_shape=image_shape)
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if branches:
        net = DecoupledModel(head.taxonomy, decouple(net, head))  # type: ignore[arg-type]
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise RunError(f"the weights do not fit the net {name}: {first}") from None
    return net
